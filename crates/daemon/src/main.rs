//! The caravan program: it only calls the `daemon` library.

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon::cli::main(daemon::run::run)
}
