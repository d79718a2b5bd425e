use super::*;
use crate::mip4::tunnel::Tunnel;
use crate::sa::Encapsulation;

const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 2);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 20, 8, 1);
const STRANGER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const INNER: Ipv4Addr = Ipv4Addr::new(192, 168, 9, 1);
const OWN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const BRANCH: Ipv4Addr = Ipv4Addr::new(10, 20, 7, 7);

fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

/// A node that does what it is told, but for its registrations.
struct Node {
    detection: Detection,
    attachment: Attachment,
    found: Attachment,
    is_inside: bool,
    outside: Outside,
}

impl Node {
    fn new(outside: Outside) -> Self {
        Self {
            detection: Detection::new([AGENT, OURS]),
            attachment: Attachment::Home,
            found: Attachment::Home,
            is_inside: true,
            outside,
        }
    }

    fn view(&self) -> View {
        let is_away = self.attachment != Attachment::Home || self.detection.is_trying();
        let leads = matches!(self.found, Attachment::Colocated(_) | Attachment::Visiting);
        View {
            place: Some(self.found).filter(|_| leads && is_away),
            has_link: self.found != Attachment::Detached,
            is_inside: self.is_inside,
            is_secured: matches!(self.attachment, Attachment::Secured(_)),
            outside: self.outside,
        }
    }

    /// On another link nothing proves that it is inside.
    fn come(&mut self, found: Attachment, now: Instant) {
        self.attachment = self.detection.come(found, &self.view(), now);
        (self.found, self.is_inside) = (found, false);
    }

    fn step(&mut self, now: Instant) -> Step {
        let step = self.detection.step(&self.view(), now);
        self.attachment = step.attach.unwrap_or(self.attachment);
        step
    }

    /// Hears an agent. The home agent means home.
    fn hear(&mut self, agent: Ipv4Addr, now: Instant) -> Hearing {
        let hearing = self.detection.hear(agent, &self.view(), now);
        if hearing == Hearing::Try {
            self.attachment = Attachment::Visiting;
        }
        if agent == AGENT && hearing != Hearing::Doubt {
            self.attachment = Attachment::Home;
        }
        hearing
    }

    /// Brings the tunnel up on a link with an address.
    fn go_out(&mut self, now: Instant) {
        self.come(Attachment::Colocated(OWN), now);
        assert_eq!(self.step(now).connect, Some(true));
        assert!(self.detection.follow_tunnel(Some(INNER)));
        let step = self.step(now);
        assert_eq!(step.attach, Some(Attachment::Secured(INNER)));
        assert_eq!((step.connect, step.ask_from), (None, Some(OWN)));
    }
}

#[test]
fn a_node_wants_its_tunnel_until_it_is_proven_to_be_inside() {
    for outside in [Outside::None, Outside::Tunnelled] {
        let mut node = Node::new(outside);
        assert_eq!(node.step(at(0)), Step::default());
        node.go_out(at(1));
        assert!(node.detection.is_wanted() && node.detection.is_open());
        // The tunnel goes on to the next address, and the node is asked about there.
        node.come(Attachment::Colocated(BRANCH), at(2));
        assert_eq!(node.attachment, Attachment::Secured(INNER));
        assert_eq!(node.step(at(2)).ask_from, Some(BRANCH));
        // The answer registers it there.
        (node.is_inside, node.attachment) = (true, Attachment::Colocated(BRANCH));
        let step = node.step(at(3));
        assert_eq!((step.connect, step.attach), (Some(false), None));
        assert!(node.detection.follow_tunnel(None) && !node.detection.follow_tunnel(None));
        assert_eq!(node.step(at(3)), Step::default());
    }
}

#[test]
fn without_its_tunnel_a_node_is_where_it_is() {
    for (found, has_link) in [
        (Attachment::Colocated(OWN), true),
        (Attachment::Visiting, true),
        (Attachment::Detached, false),
    ] {
        let mut node = Node::new(Outside::Tunnelled);
        node.go_out(at(1));
        node.come(found, at(2));
        assert_eq!(node.attachment, Attachment::Secured(INNER));
        assert_eq!(node.view().has_link, has_link);
        node.detection.follow_tunnel(None);
        assert_eq!(node.step(at(3)).attach, Some(found));
        assert!(node.detection.is_wanted(), "it is still wanted");
    }
    // Whoever brings it up may have forgotten that.
    let mut node = Node::new(Outside::None);
    node.go_out(at(1));
    node.detection.forget();
    assert_eq!(node.step(at(2)).connect, Some(true));
}

#[test]
fn the_tunnel_begins_once_the_home_agent_outside_has_the_node() {
    let mut node = Node::new(Outside::Unreachable);
    node.come(Attachment::Colocated(OWN), at(1));
    assert_eq!(node.step(at(1)).connect, None);
    node.outside = Outside::Tunnelled;
    assert_eq!(node.step(at(2)).connect, Some(true));
    // It stays wanted while the node registers from elsewhere.
    node.outside = Outside::Unreachable;
    node.come(Attachment::Visiting, at(3));
    assert_eq!(node.step(at(3)).connect, None);
    assert!(node.detection.is_wanted());
}

#[test]
fn mobike_has_no_way_through_a_foreign_agent() {
    let mut node = Node::new(Outside::None);
    node.go_out(at(1));
    node.come(Attachment::Visiting, at(2));
    assert_eq!(node.attachment, Attachment::Secured(INNER));
    assert_eq!(node.detection.deadline().map(|it| it.at), Some(at(5)));
    // The link is given time for an address.
    assert_eq!(node.hear(OURS, at(3)), Hearing::Believe);
    assert_eq!(node.step(at(4)).attach, None);
    assert_eq!(node.step(at(5)).attach, Some(Attachment::Visiting));
    assert_eq!(node.step(at(6)).attach, None);
    assert_eq!(node.detection.deadline(), None);
}

#[test]
fn a_foreign_agent_outside_leads_to_the_home_agent_outside() {
    let mut node = Node::new(Outside::Unreachable);
    node.come(Attachment::Visiting, at(1));
    assert_eq!(node.step(at(1)), Step::default());
    assert_eq!(node.hear(STRANGER, at(1)), Hearing::Believe);
    node.outside = Outside::ByAgent;
    assert_eq!(node.step(at(2)).connect, Some(true));
    node.detection.follow_tunnel(Some(INNER));
    let step = node.step(at(3));
    assert_eq!(step.attach, Some(Attachment::Secured(INNER)));
    assert_eq!(step.ask_from, None, "there is no address to ask from");
    // To the next one the tunnel goes on.
    node.outside = Outside::Unreachable;
    node.come(Attachment::Visiting, at(4));
    assert_eq!(node.attachment, Attachment::Secured(INNER));
    assert_eq!(node.step(at(9)).attach, None, "nobody waits for an address");
}

#[test]
fn an_agent_that_may_be_inside_is_tried_once_on_each_link() {
    for is_open in [true, false] {
        let mut node = Node::new(Outside::ByAgent);
        node.come(Attachment::Visiting, at(1));
        assert_eq!(node.step(at(1)).connect, Some(true));
        node.detection.follow_tunnel(is_open.then_some(INNER));
        node.step(at(1));
        let back = match is_open {
            true => Attachment::Secured(INNER),
            false => Attachment::Visiting,
        };
        for (agent, seems) in [(OURS, Attachment::Visiting), (AGENT, Attachment::Home)] {
            assert_eq!(node.hear(agent, at(2)), Hearing::Try);
            assert_eq!(node.hear(agent, at(3)), Hearing::Believe);
            assert_eq!(node.attachment, seems);
            assert_eq!(node.step(at(3)), Step::default());
            let until = at(2) + TRIAL;
            assert_eq!(node.detection.deadline().map(|it| it.at), Some(until));
            assert_eq!(node.step(until).attach, Some(back));
            assert_eq!(node.hear(agent, until), Hearing::Doubt);
            assert_eq!(node.attachment, back);
        }
        node.come(Attachment::Visiting, at(20));
        assert_eq!(node.hear(OURS, at(21)), Hearing::Try, "another link");
        // It proves that the node is inside, and is heard as long as that holds.
        node.is_inside = true;
        let step = node.step(at(22));
        assert_eq!((step.connect, step.attach), (Some(false), None));
        assert_eq!(node.detection.deadline(), None);
        assert_eq!(node.hear(OURS, at(23)), Hearing::Believe);
        assert_eq!(node.step(at(40)), Step::default());
    }
    // On a link with an address the node asks by itself.
    let mut node = Node::new(Outside::Tunnelled);
    node.go_out(at(1));
    assert_eq!(node.hear(OURS, at(2)), Hearing::Believe);
    assert_eq!(node.attachment, Attachment::Secured(INNER));
}

/// Where nothing else leads outside, who has proven nothing may prove it later.
#[test]
fn agents_are_tried_one_after_the_other_and_again_where_no_tunnel_is() {
    let mut node = Node::new(Outside::Unreachable);
    node.come(Attachment::Visiting, at(1));
    assert_eq!(node.hear(OURS, at(1)), Hearing::Try);
    assert_eq!(
        node.hear(AGENT, at(2)),
        Hearing::Doubt,
        "not in the middle of a trial"
    );
    node.step(at(1) + TRIAL);
    assert_eq!(node.hear(AGENT, at(9)), Hearing::Try);
    assert_eq!(node.hear(OURS, at(10)), Hearing::Doubt);
    assert_eq!(node.step(at(9) + TRIAL).attach, Some(Attachment::Visiting));
    let later = at(1) + TRIAL + AGAIN;
    assert_eq!(node.hear(OURS, at(60)), Hearing::Doubt);
    assert_eq!(node.hear(OURS, later), Hearing::Try);
    node.step(later + TRIAL);
    node.outside = Outside::ByAgent;
    assert_eq!(
        node.hear(OURS, at(900)),
        Hearing::Doubt,
        "a tunnel would rest"
    );
}

/// The tunnel may begin while whoever claims to be the home agent has to prove it.
#[test]
fn a_trial_keeps_no_tunnel_from_beginning() {
    let mut node = Node::new(Outside::Unreachable);
    node.come(Attachment::Visiting, at(1));
    assert_eq!(node.hear(AGENT, at(1)), Hearing::Try);
    assert_eq!(node.attachment, Attachment::Home);
    node.outside = Outside::ByAgent;
    assert_eq!(node.step(at(2)).connect, Some(true));
    node.detection.follow_tunnel(Some(INNER));
    assert_eq!(node.step(at(3)).attach, None);
    let step = node.step(at(1) + TRIAL);
    assert_eq!(step.attach, Some(Attachment::Secured(INNER)));
}

fn registered(through: Option<Ipv4Addr>) -> State {
    State::Registered {
        tunnel: Tunnel {
            care_of: OWN,
            encapsulation: Encapsulation::IpInIp,
            udp: None,
            firewall: None,
            is_reverse: true,
            has_broadcasts: false,
            is_colocated: through.is_none(),
        },
        through,
        encapsulates_delivery: false,
        keepalive: 0,
    }
}

#[test]
fn a_registration_outside_follows_the_node_and_is_taken_back_inside() {
    let mut track = Track::default();
    let own = Some(Attachment::Colocated(OWN));
    let (none, tunnelled) = (State::Unreachable, registered(None));
    assert_eq!(
        track.follow(own, None, &none),
        OutsideStep::Attach(Attachment::Colocated(OWN))
    );
    assert_eq!(track.reach(&tunnelled), Outside::Tunnelled);
    assert_eq!(track.reach(&registered(Some(STRANGER))), Outside::ByAgent);
    assert_eq!(track.reach(&none), Outside::Unreachable);
    track.lose();
    assert_eq!(track.reach(&tunnelled), Outside::Unreachable);
    let rejoins = OutsideStep::Rejoin(Attachment::Visiting);
    let visiting = Some(Attachment::Visiting);
    assert_eq!(track.follow(visiting, None, &tunnelled), rejoins);
    assert_eq!(track.follow(None, None, &tunnelled), OutsideStep::Stay);
    // Inside, once from each address and each link; through an agent of this link by that one.
    let inside = |track: &mut Track, from| track.follow(None, Some(from), &tunnelled);
    assert!(track.holds());
    assert_eq!(inside(&mut track, BRANCH), OutsideStep::LeaveFrom(BRANCH));
    assert_eq!(inside(&mut track, BRANCH), OutsideStep::Stay);
    assert!(!track.holds());
    assert_eq!(inside(&mut track, OWN), OutsideStep::LeaveFrom(OWN));
    track.lose();
    assert_eq!(inside(&mut track, OWN), OutsideStep::LeaveFrom(OWN));
    assert_eq!(track.follow(None, Some(OWN), &none), OutsideStep::Detach);
    let rejoins = OutsideStep::Rejoin(Attachment::Colocated(OWN));
    assert_eq!(track.follow(own, None, &none), rejoins);
    let by_agent = registered(Some(STRANGER));
    assert_eq!(
        track.follow(visiting, Some(OWN), &by_agent),
        OutsideStep::Leave
    );
}
