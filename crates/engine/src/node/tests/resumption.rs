//! Session resumption (RFC 5723) between nodes: after a loss, after a crash of the gateway, and
//! when a ticket must be worth nothing.

use super::crash::kill;
use super::ikev2::speaks;
use super::*;
use crate::config::Version;
use crate::work::Task;

fn world(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        connection.resumption = true;
        connection.crash_detection = true;
        connection.dpd_delay = Some(Duration::from_secs(10));
        change(connection, is_station);
    })
}

fn up(seed: u8) -> World {
    let mut world = world(seed, |_, _| {});
    world.run(Duration::from_secs(12));
    world.assert_up();
    world
}

/// Of a station: how often it was established, and how often by a ticket.
fn established(world: &World) -> (usize, usize) {
    let is_it = |event: &Event| matches!(event, Event::IkeEstablished { .. });
    let is_resumed = |event: &Event| {
        matches!(
            event,
            Event::IkeEstablished {
                is_resumed: true,
                ..
            }
        )
    };
    (world.ends[0].count(is_it), world.ends[0].count(is_resumed))
}

/// The station loses its gateway, and has it back soon after it noticed that.
fn lose(world: &mut World) {
    world.network.loss = 1.0;
    while world.ends[0].node.established() > 0 {
        world.run(Duration::from_secs(1));
    }
    world.run(Duration::from_secs(5));
    world.network.loss = 0.0;
    world.run(Duration::from_secs(60));
}

#[test]
fn a_station_that_lost_its_gateway_goes_on_by_its_ticket_with_the_same_inner_address() {
    let mut world = up(180);
    let inner = world.ends[0].inner();
    lose(&mut world);
    world.assert_up();
    assert_eq!(established(&world), (2, 1));
    assert_eq!(world.ends[0].inner(), inner);
    assert_eq!(world.ends[1].node.established(), 1);
    for end in &world.ends {
        let status = end.node.status(world.now);
        assert!(status.connections[0].sessions[0].is_resumed);
    }
    // And once more.
    lose(&mut world);
    assert_eq!(established(&world), (3, 2));
}

#[test]
fn after_a_crash_of_the_gateway_the_station_is_back_by_its_ticket() {
    let mut world = up(181);
    let inner = world.ends[0].inner();
    let before = world.ends[0].node.work().clone();
    kill(&mut world, 1);
    world.packet();
    world.run(Duration::from_millis(500));
    world.assert_up();
    assert_eq!(established(&world), (2, 1));
    assert_eq!(world.ends[0].inner(), inner);
    let after = world.ends[0].node.work();
    let exchanges = |work: &Work| -> u64 {
        let is_one = |task| {
            matches!(
                task,
                Task::KeyShare(_) | Task::KeyAnswer(_) | Task::Agree(_)
            )
        };
        let all = work.entries().iter().filter(|(task, _, _)| is_one(*task));
        all.map(|(_, times, _)| times).sum()
    };
    assert!(exchanges(&before) > 0);
    assert_eq!(exchanges(&before), exchanges(after));
}

#[test]
fn the_old_session_ends_without_a_word() {
    let mut world = up(182);
    // The gateway does not notice the loss.
    world.network.loss = 1.0;
    world.run(Duration::from_secs(22));
    world.network.loss = 0.0;
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_eq!(world.ends[1].node.established(), 1);
}

#[test]
fn a_ticket_is_worth_nothing_after_an_orderly_end() {
    for end in [0, 1] {
        let mut world = up(183);
        let ticket = {
            let sessions = world.ends[0].endpoint.node.sessions.values_mut();
            let mut ikes = sessions.filter_map(|it| it.ike.v2_mut());
            ikes.next().and_then(|it| it.take_ticket())
        };
        let ticket = ticket.expect("a ticket");
        world.command(end, Command::Down("road".into()));
        world.run(Duration::from_millis(200));
        assert_eq!(world.ends[1].node.established(), 0);
        // A station that uses it nevertheless has to begin anew.
        let address = GATEWAY.into();
        let stations = &mut world.ends[0].endpoint.node.stations;
        stations.keep_ticket(0, address, ticket);
        world.command(0, Command::Up("road".into()));
        world.run(Duration::from_secs(40));
        world.assert_up();
        assert_eq!(established(&world).1, 0);
        assert!(world.drops(1, DropReason::TicketRefused) > 0);
    }
}

#[test]
fn a_ticket_that_was_ended_is_worth_nothing_after_the_gateway_has_stopped_and_begun_again() {
    let mut world = up(195);
    let ticket = {
        let sessions = world.ends[0].endpoint.node.sessions.values_mut();
        let mut ikes = sessions.filter_map(|it| it.ike.v2_mut());
        ikes.next().and_then(|it| it.take_ticket())
    };
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_millis(200));
    world.command(1, Command::Stop);
    world.run(Duration::from_secs(1));
    kill(&mut world, 1);
    let stations = &mut world.ends[0].endpoint.node.stations;
    stations.keep_ticket(0, GATEWAY.into(), ticket.expect("a ticket"));
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(40));
    world.assert_up();
    assert_eq!(established(&world).1, 0);
    assert!(world.drops(1, DropReason::TicketRefused) > 0);
}

#[test]
fn a_changed_connection_takes_no_ticket_of_the_former_one() {
    let mut world = up(184);
    world.network.loss = 1.0;
    let change = world.change.clone();
    let other = config(
        false,
        &(Arc::new(move |connection: &mut Connection, is_station| {
            change(connection, is_station);
            connection.revision += 1;
        }) as Change),
    );
    world.input(1, Input::Configure(Arc::new(other)));
    world.run(Duration::from_secs(30));
    world.network.loss = 0.0;
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_eq!(established(&world), (2, 0));
    assert!(world.drops(1, DropReason::TicketRefused) > 0);
}

#[test]
fn a_renewal_brings_a_new_ticket() {
    for end in [0, 1] {
        let mut world = up(185);
        world.command(end, Command::RekeyIke("road".into()));
        world.run(Duration::from_secs(20));
        world.assert_up();
        lose(&mut world);
        world.assert_up();
        assert_eq!(established(&world).1, 1, "{end}");
    }
}

#[test]
fn a_third_of_all_datagrams_may_be_lost() {
    for seed in 186..192 {
        let mut world = world(seed, |_, _| {});
        world.network.loss = 0.3;
        for _ in 0..3 {
            world.run(Duration::from_secs(60));
            kill(&mut world, 1);
        }
        world.network.loss = 0.0;
        world.run(Duration::from_secs(120));
        world.assert_up();
        assert_eq!(world.ends[1].node.established(), 1);
    }
}

#[test]
fn the_keys_of_tickets_are_kept() {
    let mut world = up(193);
    let kept = world.ends[1].seen.kept.as_ref().expect("secrets").0.clone();
    // The version and two numbers, the secret of tokens, and one key.
    assert_eq!(kept.len(), 3 + 32 + 4 + 8 + 32);
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[1].seen.kept.as_ref().expect("secrets").0, kept);
}

#[test]
fn a_ticket_of_a_killed_gateway_that_kept_nothing_is_refused_and_the_station_begins_anew() {
    let mut world = up(194);
    world.restart_gateway();
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_eq!(established(&world), (2, 0));
    assert!(world.drops(1, DropReason::TicketRefused) > 0);
}

#[test]
fn the_log_says_who_gets_no_ticket_and_why() {
    let mut world = world(188, |connection, is_station| {
        if !is_station {
            connection.name = "long".repeat(400);
        }
    });
    world.run(Duration::from_secs(2));
    let said = |event: &Event| match event {
        Event::TicketTooLarge { octets, most, .. } => octets > most,
        _ => false,
    };
    assert_eq!(world.ends[1].count(said), 1);
    assert!(!world.ends[0].told(said));
}
