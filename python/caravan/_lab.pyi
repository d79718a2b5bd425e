"""The native core of the lab, built from crates/python: JSON in, JSON and opaque bytes out.

A request for a scenario holds `file` and `text`, `set` (edits as `KEY=VALUE`), `catalogue` (every
text that it may name: `kind`, `name`, `file`, `text`), and `run` (`seconds` after `warm_up_s`,
`replications` from `first_replication`, `seed`). Every function leaves the interpreter to other
threads while it computes, and raises `Refusal`.
"""

class Refusal(ValueError):
    """Why a request is refused. Its text is one sentence for people; code reads the attributes.

    `code`: `text` (what a file or an edit says), `unpriced`, `no-formula`, `unknown-suite`,
    `argument`, `clock`, `file`, `capture`, `no-packets`, `tallies`, `request` (asked by a library
    of another version), `answer`. `what` is the sentence without its place, `brief` leaves out
    what would do instead. `place` is file (None for an edit), line, column and key. `argument` is
    the value of the request that is wrong. A refusal inside an answer is an object with `code`,
    `said`, `what`, `brief` and `place`.
    """

    code: str
    what: str
    brief: str
    place: tuple[str | None, int | None, int | None, str] | None
    argument: str | None

class Unpriced(Refusal):
    """The device `profile` has no cost of `subject`, a suite or an operation: `cell` is empty."""

    profile: str
    subject: str
    cell: str

class NoFormula(Refusal):
    """The formulas of `accounting` say no size of `policy`."""

    accounting: str
    policy: str

class Scenario:
    """A scenario that is read and resolved once, for every question about it.

    `run` below is the request's, with what a question asks for instead.
    """

    file: str
    """How messages name its file."""

    def __new__(cls, request: str, /) -> Scenario: ...
    def resolved(self, run: str | None = None, /) -> str:
        """The scenario, checked and resolved, its `hash`, whether it is a graph (`is_graph`;
        otherwise a chain), the nodes of whose device `bytes_alone`
        are priced, and why only the event kernel can follow it, if so, as `beyond_tandem`. `graph`
        has its flows, addresses and routes, of a chain too, `links` and `moves` in the whole
        numbers of the event kernel (`delay_ns`, `at_ns`), and as `setup` tunnels, published ports
        and where flows go. Each of `setup.tunnels` has the scenario's key for its policy as
        `policy_key` (`policy`, `layer.ms1.policy`), and the policy as `protection`, with the
        keys of a policy file and their defaults (`suite`, `mode`, `udp`, `outer`; `around` of two
        layers; `keys` is null or has `exchange`, `proposal`, `proof`), `outer` of the path, and
        whether a NAT is on the path at the beginning as `has_nat`."""

    def model(self) -> str:
        """What queueing theory says of its queues."""

    def simulate(self, run: str | None = None, /) -> bytes:
        """Some replications, for `outcome`."""

    def replay(self, policies: list[str], path: str, /) -> str:
        """The packets of the capture at `path` under each of the policies."""

    def departures(self) -> str:
        """The datagrams of each flow as `kernel` sends them: nanoseconds from the start of the
        flows, and bytes of the clear IP packet; null for TCP."""

    def kernel(self, capture: str | None = None, /) -> str:
        """It with the real node in it: `model`, null of a graph, `simulate`, and `resolved`.
        `capture` names the pcapng file that gets every link's packets."""

def version() -> str:
    """The version of this build."""

def sources() -> str:
    """A check of the Rust sources that this build is of, as `caravan.lab.freshness` makes it."""

def price(request: str, /) -> str:
    """What a packet of `bytes` costs: `file` and `text` of a device, `suite` (a word, or `file` and
    `text` of a policy), `mips` or `clock_mhz`, `direction` (`seal`, `open`)."""

def sizes(request: str, /) -> str:
    """How large clear IP packets of these `bytes` become under a policy (`file` and `text`):
    `wire_bytes` by an `accounting` (`rfc`, `paper-u`, `paper-w`), null if it has no formula;
    `parts` of a packet in ESP in UDP or of SKIP, null without protection."""

def exchange(request: str, /) -> str:
    """What an exchange of messages takes over a link: `rounds`, `messages`, `bytes`, `data_bytes`
    (a data packet on the wire), `send_s` until
    the node's first data leaves, `gap_s` until the peer's first data arrives; bytes and times are
    null if a message has no size. The request has `file` and `text` of the exchange, `link`, and
    may have `policy` and `device` (`name`, `file` and `text` of each) and `clock_mhz`; then
    `detection_s` and `data_bytes`. `more` are further exchanges, one after the other; `behind`
    are the links over which an access point relays messages: lists of `name`, `file` and `text`."""

def hosts(request: str, /) -> str:
    """What one of two hosts sends over the `wire` between them (`rate_bps`, `overhead_bytes`,
    `mtu_bytes`), under `policy` and of `device` (`name`, `file` and `text`, or null), by `flow`: a
    `datagram` of so many bytes of data, or `segment`, a full one of TCP: bytes on the wire, time of
    wire and processor, rates, and the processor's share at `offered_mbit_s`. A `packet` of so many
    bytes of IP: those that are protected (`clear`) and those on the wire, and cycles of both ends.
    `cuts` is `inside` or `outside`: before a tunnel protects a packet that is too large, or after
    it."""

def outcome(tallies: list[bytes], /) -> str:
    """What the replications of one scenario say together, in any order."""

def listing(request: str, /) -> str:
    """Every `device`, `link` or `policy` (the request's `kind`) of its `catalogue`."""

def named(file: str, text: str, edits: list[str], /) -> str:
    """The names of devices, links, policies and traces in a scenario's text after edits, each once,
    as pairs of kind and name: `[["policy", "./mine.toml"]]`. The rest is not checked."""

def document(file: str, text: str, /) -> str:
    """A TOML text as JSON. Each value has its line and column as `at`, and a `value`, a `list` or a
    `table`, which is pairs of key and value in the order of the text. `file` is for messages."""

def nearest(word: str, valid: list[str], /) -> str | None:
    """The valid word that `word` is a slip or a part of."""

def choices(word: str, valid: list[str], /) -> str:
    """Half a sentence: the valid word that `word` is nearest to, else all valid ones."""
