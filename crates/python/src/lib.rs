//! The binding of the lab for Python.

use pyo3::prelude::*;

/// `caravan._lab`
#[pymodule]
mod _lab {
    use pyo3::prelude::*;

    /// The version of this build.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
