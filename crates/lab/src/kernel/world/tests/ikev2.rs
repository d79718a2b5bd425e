//! IKEv2 in the event kernel: by proof, key exchange, fragments and cookie; computed and simulated.

use super::*;
use crate::cost::operation_of;
use crate::kernel::closed;
use crypto::ml_dsa::MlDsa;

/// A policy of IKEv2 with this suite and proof, and more keys of `[keys]`.
fn policy(proposal: &str, proof: &str, more: &str) -> Entry {
    let text = format!(
        "name = \"v2\"\ntitle = \"x\"\nsuite = \"aes128gcm16\"\n[keys]\nexchange = \"ikev2\"\n\
         proposal = \"{proposal}\"\nproof = \"{proof}\"\n{more}\n"
    );
    entry(Kind::Policy, "v2", text)
}

fn built(policy: Entry, edits: &[&str]) -> Result<Blueprint, String> {
    let board = include_str!("../../../../../../python/caravan/catalogue/devices/cortex-m4.toml");
    // pqm4 has them, and the board's file does not: other code, with assembler.
    let costs: Vec<String> = MlDsa::ALL
        .iter()
        .flat_map(|set| ["sign", "verify"].map(|what| (set.word(), what)))
        .map(|(word, what)| format!("{word}-{what} = {{ value = 5e6, source = \"a test\" }}"))
        .collect();
    let costs = format!("[per_operation]\n{}", costs.join("\n"));
    let board = board.replace("[per_operation]", &costs);
    let catalogue = Catalogue::new([policy, entry(Kind::Device, "cortex-m4", board)]);
    let edits = [&["policy=v2", "traffic.bytes=1 KB"], edits].concat();
    let scenario = Scenario::edited("road.toml", ROAD, &edits, &catalogue);
    let scenario = scenario.map_err(|fault| fault.to_string())?;
    let resolved = scenario.resolved(&catalogue);
    let resolved = resolved.map_err(|fault| fault.to_string())?;
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held());
    blueprint.map_err(|fault| fault.to_string())
}

fn exchange(policy: Entry, edits: &[&str]) -> Exchange {
    let world = World::new(built(policy, edits).expect("a blueprint"));
    let outcome = world.expect("a world").run().expect("runs");
    outcome.exchange.expect("an exchange")
}

const X25519: &str = "aes128gcm16-prfsha256-curve25519";
const PROOFS: [(&str, usize); 9] = [
    ("psk", 4),
    ("rsa2048", 4),
    ("ecdsa-p256", 4),
    ("ed25519", 4),
    ("ml-dsa-44", 4),
    ("ml-dsa-65", 4),
    ("ml-dsa-87", 4),
    // the identity, the challenge, the success, and AUTH of both ends
    ("eap-mschapv2", 12),
    // the identity, and TLS in fragments of 1000 octets
    ("eap-tls", 18),
];
const METHODS: [(&str, usize); 6] = [
    ("modp2048", 0),
    ("ecp256", 0),
    ("curve25519", 0),
    ("mlkem768", 0),
    // one IKE_INTERMEDIATE
    ("curve25519-ke1_mlkem768", 2),
    ("curve25519-ke1_mlkem1024", 2),
];

/// The model's messages are those of the simulation, octet by octet, and another seed changes
/// nothing but octets.
fn assert_agree(policy: &Entry, messages: usize) -> Exchange {
    let found = exchange(policy.clone(), &[]);
    let text = &policy.text;
    assert!(found.is_up, "{text}: {found:#?}");
    assert_eq!(found.messages.len(), messages, "{text}: {found:#?}");
    let model = closed::model(&built(policy.clone(), &[]).expect("a blueprint")).expect("a model");
    assert_eq!(model.handshake_messages, messages, "{text}");
    assert_eq!(model.handshake_wire_bytes, found.wire_bytes, "{text}");
    let (ours, theirs) = (
        model.handshake_s.expect("free"),
        found.handshake_s.expect("up"),
    );
    assert!(
        (ours / theirs - 1.0).abs() < 0.02,
        "{text}: {ours} for {theirs}"
    );
    let other = exchange(policy.clone(), &["seed=7"]);
    let sizes = |it: &Exchange| -> Vec<u64> { it.messages.iter().map(|it| it.bytes).collect() };
    assert_eq!(sizes(&other), sizes(&found), "{text}");
    found
}

#[test]
fn every_proof_has_the_same_messages_in_model_and_simulation() {
    for (proof, messages) in PROOFS {
        assert_agree(&policy(X25519, proof, ""), messages);
    }
}

#[test]
fn every_key_exchange_has_the_same_messages_in_model_and_simulation() {
    let mut last = 0;
    for (method, more) in METHODS {
        let suite = format!("aes128gcm16-prfsha256-{method}");
        let found = assert_agree(&policy(&suite, "psk", ""), 4 + more);
        // A first message whole, whatever is in it: nothing splits IKE_SA_INIT.
        assert_eq!(found.messages[0].datagrams, 1, "{method}");
        last = found.wire_bytes;
    }
    // A public value and a text of ML-KEM-1024 have 1568 octets each.
    assert!(last > 2 * 1568, "{last}");
}

#[test]
fn a_gateway_under_load_asks_for_a_cookie_which_costs_a_round_trip() {
    let without = assert_agree(&policy(X25519, "psk", ""), 4);
    let with = assert_agree(&policy(X25519, "psk", "cookie = true"), 6);
    let more_s = with.handshake_s.expect("up") - without.handshake_s.expect("up");
    assert!((0.040..0.045).contains(&more_s), "{more_s}");
    // The first message again, with a notify of the cookie.
    let [first, asked, again] = [0, 1, 2].map(|at| with.messages[at].bytes);
    assert!(
        asked < 100 && again == first + asked - 28,
        "{first} {asked} {again}"
    );
}

/// The operations of each message: the station's, the gateway's.
fn works(exchange: &Exchange) -> Vec<(String, String)> {
    let messages = exchange.messages.iter();
    messages
        .map(|it| (it.work.join(" "), it.peer_work.join(" ")))
        .collect()
}

#[test]
fn each_message_has_the_operations_that_the_ends_have_counted_for_it() {
    let suite = format!("{X25519}-ke1_mlkem768");
    let found = works(&exchange(policy(&suite, "rsa2048", ""), &[]));
    let expected = [
        ("x25519-generate", "x25519-agree"),
        ("x25519-agree", "x25519-generate"),
        ("ml-kem-768-generate", ""),
        ("ml-kem-768-decapsulate", "ml-kem-768-encapsulate"),
        ("rsa2048-sign", "rsa2048-verify"),
        ("rsa2048-verify", "rsa2048-sign"),
    ];
    let expected = expected.map(|(own, peers)| (own.to_owned(), peers.to_owned()));
    assert_eq!(found, expected);
    for (proof, _) in PROOFS {
        let built = built(policy(X25519, proof, ""), &[]).expect("a blueprint");
        let mut world = World::new(built).expect("a world");
        world.kernel.start().expect("starts");
        let exchange = world.handshakes().expect("runs").remove(0);
        world.kernel.run(world.kernel.now() + QUIET).expect("runs");
        let told = works(&exchange).into_iter();
        let (own, peers): (Vec<String>, Vec<String>) = told.unzip();
        for (name, told) in [("ms", own), ("sg", peers)] {
            let mut told: Vec<&str> = told.iter().flat_map(|it| it.split_whitespace()).collect();
            let counted = world.works().into_iter().find(|(host, _)| host == name);
            let (_, counted) = counted.expect("a host with IKE");
            let counted = counted.entries().iter().flat_map(|&(task, times, _)| {
                let name = operation_of(task);
                (0..times).filter_map(move |_| name.clone())
            });
            let mut counted: Vec<String> = counted.collect();
            told.sort_unstable();
            counted.sort_unstable();
            assert_eq!(told, counted, "{proof}: {name}");
        }
    }
}

#[test]
fn a_lost_session_goes_on_by_its_ticket_with_no_operation_of_a_key_exchange() {
    // An authority of these has too long a key for a ticket.
    let has_ticket = |proof: &str| !["ml-dsa-65", "ml-dsa-87"].contains(&proof);
    for (proof, _) in PROOFS.into_iter().filter(|(proof, _)| has_ticket(proof)) {
        let resumed = policy(X25519, proof, "resumed = true");
        let found = assert_agree(&resumed, 4);
        let steps: Vec<&str> = found.messages.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(
            steps,
            ["resume 1", "resume 2", "auth 1", "auth 2"],
            "{proof}"
        );
        let nothing = (String::new(), String::new());
        assert!(works(&found).iter().all(|it| *it == nothing), "{proof}");
        assert!(found.failures.is_empty(), "{proof}: {found:#?}");
    }
    let whole = exchange(policy(X25519, "rsa2048", ""), &[]);
    let short = exchange(policy(X25519, "rsa2048", "resumed = true"), &[]);
    assert!(short.wire_bytes < whole.wire_bytes, "{short:#?}");
    // The tunnel carries packets again.
    let edits = ["traffic.bytes=100 KB"];
    let built = built(policy(X25519, "psk", "resumed = true"), &edits).expect("a blueprint");
    let outcome = World::new(built).expect("a world").run().expect("runs");
    assert!(outcome.transferred.is_some_and(|it| it.is_complete));
}

#[test]
fn a_cookie_comes_before_a_ticket_is_opened() {
    let more = "cookie = true\nresumed = true";
    let found = assert_agree(&policy(X25519, "psk", more), 6);
    let steps: Vec<&str> = found.messages.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(steps[..4], ["resume 1", "resume 2", "resume 1", "resume 2"]);
}

#[test]
fn large_messages_are_split_unless_the_policy_says_no() {
    let split = assert_agree(&policy(X25519, "rsa2048", ""), 4);
    let whole = assert_agree(&policy(X25519, "rsa2048", "fragments = false"), 4);
    let datagrams =
        |it: &Exchange| -> Vec<u64> { it.messages.iter().map(|it| it.datagrams).collect() };
    assert_eq!(datagrams(&whole), [1; 4]);
    let split_of = datagrams(&split);
    assert!(split_of[2] > 1 && split_of[3] > 1, "{split_of:?}");
    assert!(split.wire_bytes > whole.wire_bytes);
    // ML-KEM's largest key fits no packet of this path.
    let suite = format!("{X25519}-ke1_mlkem1024");
    let large = exchange(policy(&suite, "psk", ""), &[]);
    assert!(large.messages[2].datagrams > 1, "{large:#?}");
}

#[test]
fn what_a_link_loses_is_sent_again() {
    for seed in 1..6 {
        let edits = ["link.nat.loss=0.2", &format!("seed={seed}")];
        let suite = format!("{X25519}-ke1_mlkem768");
        let found = exchange(policy(&suite, "rsa2048", ""), &edits);
        assert!(found.is_up, "seed {seed}: {found:#?}");
    }
    // 20 round trips: something is lost.
    let mut late = 0;
    for seed in 1..6 {
        let seed = format!("seed={seed}");
        let found = exchange(policy(X25519, "eap-tls", ""), &["link.nat.loss=0.2", &seed]);
        late += usize::from(found.is_up && found.handshake_s > Some(1.0));
    }
    assert!(late > 0);
}

/// As published for an STM32 at 80 MHz: what costs most is in the time, and what has no cost is
/// named.
#[test]
fn the_work_of_each_proof_and_method_is_priced() {
    let taken = |suite: &str, proof: &str| {
        let edits = ["node.ms.device=cortex-m4"];
        let blueprint = built(policy(suite, proof, ""), &edits).expect("a blueprint");
        let model = closed::model(&blueprint).expect("a model");
        let world = World::new(blueprint).expect("a world").run().expect("runs");
        (model, world)
    };
    let base_s = {
        let (model, _) = taken(X25519, "psk");
        model.handshake_s.expect("priced")
    };
    for (proof, more_s) in [
        // a signature and the check of the other end's
        ("rsa2048", 2.8215 + 0.044_458),
        // the check of the gateway's alone
        ("eap-mschapv2", 0.044_458),
        // the same, and in TLS a key pair, a secret, a signature and a check
        ("eap-tls", 2.8215 + 2.0 * 0.044_458 + 0.696 + 0.692),
    ] {
        let (model, outcome) = taken(X25519, proof);
        let found = model.handshake_s.expect("priced") - base_s;
        assert!(
            (found - more_s).abs() < 0.35,
            "{proof}: {found} for {more_s}"
        );
        let simulated = outcome.exchange.and_then(|it| it.handshake_s).expect("up");
        let near = simulated / model.handshake_s.expect("priced") - 1.0;
        assert!(near.abs() < 0.02, "{proof}: {near}");
        assert_eq!(outcome.unpriced, None, "{proof}");
    }
    let (model, outcome) = taken(&format!("{X25519}-ke1_mlkem768"), "psk");
    let missing = "ms: cortex-m4 has no cost of a first half of ml-kem-768: \
                   per_operation.ml-kem-768-generate is empty";
    assert_eq!(model.unpriced.as_deref(), Some(missing));
    assert_eq!(outcome.unpriced.as_deref(), Some(missing));
}

#[test]
fn what_no_end_has_is_refused() {
    let why = |entry: Entry| built(entry, &[]).map(drop).expect_err("refused");
    let said = why(policy("aes128-sha256-modp1024", "psk", ""));
    assert!(said.contains("modp1024"), "{said}");
    let said = why(policy(X25519, "rsa3072", ""));
    assert!(said.contains("RSA keys have 2048 bits"), "{said}");
    let entry = policy(X25519, "psk", "");
    let v1 = |text: String| Entry {
        text: text
            .replace("\"ikev2\"", "\"ikev1-main\"")
            .replace(X25519, "aes128-sha256-modp2048"),
        ..entry.clone()
    };
    for (text, said) in [
        (
            policy(X25519, "eap-tls", "").text,
            "only exchange = \"ikev2\" has this proof",
        ),
        (
            policy(X25519, "psk", "cookie = true").text,
            "only exchange = \"ikev2\" has it",
        ),
        (
            policy(X25519, "psk", "resumed = true").text,
            "only exchange = \"ikev2\" has it",
        ),
    ] {
        let fault = why(v1(text));
        assert!(fault.contains(said), "{fault}");
    }
}
