use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn commands_of_the_manual_parse() {
    for line in [
        "caravan gateway -c g.toml --capture x.pcapng",
        "caravan up -c c.toml --detach --log-format json",
        "caravan up -c c.toml --detach --timeout 90",
        "caravan --runtime-dir /tmp/x down home",
        "caravan reload",
        "caravan reload --all",
        "caravan rekey home --ike",
        "caravan drain home --to sg2.example",
        "caravan drain home --off",
        "caravan status --json home",
        "caravan check c.toml",
        "caravan bench --quick --json",
        "caravan pki ca --subject CN=x --out pki",
        "caravan pki issue --ca pki --name ms1 --bundle --gateway sg --remote-ts 10.0.0.0/8",
        "caravan pki revoke --ca pki 00ff",
        "caravan tunnel-agent client --user alice",
        "caravan tunnel-agent issue -c h.toml --user alice --public k.pub --out s.txt",
        "caravan tunnel-agent client --user alice --sheet s.txt --key 3 --lifetime 90s",
        "caravan tunnel-agent issue -c h.toml --user alice --count 3 --out s.txt",
        "caravan tunnel-agent revoke -c h.toml --user alice",
        "caravan tunnel-agent member -c t.toml add alice@home --network 10.0.0.0/8",
        "caravan tunnel-agent tables --json",
        "caravan tunnel-agent tunnels -c t.toml --json",
        "caravan tunnel-agent client --user alice --socks=127.0.0.1",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
    for line in [
        "caravan",
        "caravan up",
        "caravan up -c c.toml --timeout 90",
        "caravan up -c c.toml --detach --timeout 0",
        "caravan down",
        "caravan check",
        "caravan check c.toml -c c.toml",
        "caravan reload home --all",
        "caravan drain home --to sg2.example --off",
        "caravan pki issue --ca pki --name ms1 --bundle",
        "caravan pki issue --ca pki --name x --key a --csr b",
        "caravan tunnel-agent client --user al@ice",
        "caravan tunnel-agent client --user alice --key 2",
        "caravan tunnel-agent client --user alice --lifetime 25h",
        "caravan tunnel-agent issue -c h.toml --user alice --count 0 --out s.txt",
        "caravan tunnel-agent revoke -c h.toml --user alice --all",
        "caravan tunnel-agent revoke -c h.toml",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn check_takes_its_file_as_the_commands_that_run_it_do() {
    for line in ["caravan check c.toml", "caravan check -c c.toml"] {
        match parse(line).expect(line).command {
            Command::Check(args) => assert_eq!(args.named(), std::path::Path::new("c.toml")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_client_without_rights_is_told_of_the_way_that_needs_none() {
    let lacking = PrivilegeError::Lacking(caps::Capability::CAP_NET_ADMIN);
    let said = with_socks(lacking.into()).to_string();
    assert!(
        said.starts_with("this needs CAP_NET_ADMIN: run as root"),
        "{said}"
    );
    assert!(said.contains("`caravan socks -c FILE`"), "{said}");
    let other = with_socks(anyhow::anyhow!("no route")).to_string();
    assert_eq!(other, "no route");
}

#[test]
fn the_way_to_end_draining_is_in_the_error_about_a_missing_gateway() {
    let error = parse("caravan drain home")
        .expect_err("no gateway")
        .to_string();
    assert!(error.contains("--off"), "{error}");
}

#[test]
fn nothing_running_is_said_with_the_place_that_was_searched() {
    let folder = std::path::Path::new("/nonexistent/caravan");
    for result in [
        commands::status((folder, &[]), None, true),
        commands::reload(folder, None, false),
        commands::down(folder, folder, "home"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("/nonexistent/caravan"), "{error}");
    }
}
