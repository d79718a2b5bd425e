//! Client between a user, Host and its back-end.

use crypto::rand::Stream;
use engine::agent::client::{Client, Config, Outcome, Output};
use engine::agent::envelope::request_digest;
use engine::agent::ike::IkeAbilities;
use engine::agent::objectives::{Objective, Options};
use engine::agent::ppk::KeyPpk;
use engine::agent::sheet::Head;
use engine::time::{Duration, Instant};
use wire::agent::{Response, Retry, Tunneling, Verdict};

use super::*;

/// The agent, and what was said to it.
pub struct Stage {
    client: Client,
    random: Stream,
    now: Instant,
    /// The last request and its signature.
    request: Option<(Request, Vec<u8>, Signature)>,
    to_sign: Option<Vec<u8>>,
    /// A part of Target's was delivered undamaged.
    has_part: bool,
    was_built: bool,
    has_end: bool,
    over: Option<Outcome>,
}

impl Default for Stage {
    fn default() -> Self {
        let config = Config {
            head: Head {
                host: host_keys().identity(),
                addresses: vec!["a:1".into(), "b:1".into()],
                target: target_keys().identity().fingerprint(),
                not_after: Calendar(TODAY + 3_600),
            },
            handle: handle(1),
            pair: None,
            user: USER.into(),
            objectives: Objective::ALL.into_iter().collect(),
            options: Options::ALL,
            ike: IkeAbilities::ALL,
            ppk: Some(KeyPpk::of(&[1; 32])),
            lifetime: Duration::from_secs(600),
            tunnel_key: b"key".to_vec(),
        };
        let now = Instant(0);
        let mut stage = Self {
            client: Client::new(config, clock(now, 0), random("client")),
            random: random("others"),
            now,
            request: None,
            to_sign: None,
            has_part: false,
            was_built: false,
            has_end: false,
            over: None,
        };
        stage.client.start(now);
        stage.drain();
        stage
    }
}

impl Stage {
    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        match kind % 8 {
            0 => {
                let octets = script.octets();
                self.client.handle(&octets, self.now);
            }
            1 => {
                let octets = self.to_sign.take();
                let by = one_time(1);
                let signature = octets.map(|octets| by.sign(&[&octets]));
                let is_given = script.octet() != 255;
                self.client.signed(signature.filter(|_| is_given), self.now);
            }
            2 | 3 => self.response(script),
            4 => {
                let retry = Retry {
                    label: handle(1).0,
                    cookie: [script.octet(); 16],
                };
                self.client.handle(&retry.to_vec(), self.now);
            }
            5 => match script.octet() % 4 {
                0 => self.client.built(true, self.now),
                1 => self.client.built(false, self.now),
                2 => self.client.destroyed(false, self.now),
                _ => {
                    self.has_end &= !self.was_asked_down();
                    self.client.destroyed(true, self.now);
                }
            },
            6 => match script.octet() % 2 {
                0 => self.client.closed(self.now),
                _ => self.client.log_out(self.now),
            },
            _ => {
                self.now = self.now + script.span();
                self.client.handle_timeout(self.now);
            }
        }
        self.drain();
    }

    /// Left alone with a back-end that works, nothing is left.
    pub fn end(mut self) {
        for _ in 0..1_000 {
            self.now = self.now + Duration::from_secs(1);
            self.client.handle_timeout(self.now);
            self.drain();
            if self.was_asked_down() {
                self.has_end = false;
                self.client.destroyed(true, self.now);
                self.drain();
            }
        }
        assert!(self.over.is_some() && self.client.deadline().is_none());
        assert!(!self.has_end && !self.client.has_tunnel());
    }

    /// Whether there was an end of a tunnel.
    pub fn was_built(&self) -> bool {
        self.was_built
    }

    fn was_asked_down(&self) -> bool {
        let due = self.client.deadline();
        due.is_some_and(|it| it.why == "take the tunnel down again")
    }

    fn response(&mut self, script: &mut Script<'_>) {
        let Some((request, body, signature)) = self.request.clone() else {
            return;
        };
        let digest = request_digest(&body, &signature);
        let kind = script.octet();
        let verdict = match kind & 1 {
            0 => Verdict::Granted,
            _ => script.octet().into(),
        };
        let keys = if kind & 2 == 0 {
            target_keys()
        } else {
            host_keys()
        };
        let identity = keys.identity();
        let tunneling = Tunneling {
            sealing_key: identity.sealing.0,
            signing_key: identity.signing.0,
            option: if kind & 4 == 0 { 4 } else { script.octet() },
            ike_version: if kind & 8 == 0 { 2 } else { kind >> 6 },
            has_ppk: kind & 16 == 0,
            until: TODAY as u64 + u64::from(script.number()),
            addresses: Vec::new(),
            networks: Vec::new(),
            proposals: Vec::new(),
            target_identity: "target.example".into(),
            client_identity: "alice@host.example".into(),
            target_chain: Vec::new(),
            client_chain: vec![vec![script.octet()]],
        };
        let to = PublicKey(request.fresh.as_ref().expect("fresh keys").sealing_key);
        let label = request.request_id;
        let inner = [&digest.0[..], &tunneling.to_vec().expect("within limits")].concat();
        let octets = envelope::signed_octets(Use::Part, &label, to, &inner);
        let signature = keys.signing.sign(&[&octets]);
        let signed = (&inner[..], &signature);
        let part = envelope::seal_signed(Use::Part, label, to, signed, &mut self.random);
        let (encapsulated, ciphertext) = part.expect("no value of low order");
        let part = [&encapsulated[..], &ciphertext].concat();
        let damaged = script.damage(part.clone());
        self.has_part |= damaged == part && kind & 2 == 0 && tunneling.option == 4;
        let body = Response {
            request: digest.0,
            verdict,
            time: TODAY as u64 + u64::from(kind),
            part: damaged,
        }
        .to_vec();
        let by = host_keys().signing;
        let message = sealed(Kind::Response, label, to, &body, &by, &mut self.random);
        self.client.handle(&script.damage(message), self.now);
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll() {
            assert_eq!(self.over, None, "an output after the end");
            match output {
                Output::Sign(octets) => self.to_sign = Some(octets),
                Output::Send { host, payload } => {
                    assert!(host < 2);
                    let host = host_keys().sealing;
                    let Ok(Message::Sealed(sealed)) = Message::parse(&payload) else {
                        panic!("not sealed");
                    };
                    let opened = envelope::open(&sealed, &host).expect("sealed to Host");
                    let body = opened.body.to_vec();
                    let request = Request::parse(&body).expect("what we write reads");
                    self.request = Some((request, body, opened.signature));
                }
                Output::Build(_) => {
                    assert!(self.has_part, "built without Target's word");
                    (self.was_built, self.has_end) = (true, true);
                }
                Output::Destroy | Output::Audit(_) | Output::ClockDiffers { .. } => {}
                Output::Over(outcome) => self.over = Some(outcome),
            }
        }
        let due = self.client.deadline();
        assert!(due.is_none_or(|due| due.at >= self.now), "{due:?}");
    }
}
