//! The caravan program: a thin door to the `daemon` library.

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon::cli::main(daemon::run::run)
}
