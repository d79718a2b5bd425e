//! The binding of the lab for Python: `caravan._lab`, typed in `python/caravan/_lab.pyi`.
//!
//! A `Scenario` is read and resolved once, and then used for many requests. Texts and JSON are
//! passed in, JSON and opaque bytes are returned, so that a request has the same meaning in every
//! process and on every machine. While the lab computes, the interpreter lock is released: Python
//! threads distribute replications over cores. An error in a request is a `Refusal` with a code for
//! programs and a sentence for people. Left out: formulas, and files other than captures, whose
//! packets are read as a stream.

mod answers;
mod exchange;
mod hosts;
mod kernel;
mod listing;
mod refused;
mod request;
mod sizes;
mod text;

use pyo3::prelude::*;

use refused::Refused;

/// Runs `work` without the interpreter lock; an error becomes an exception.
fn apart<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Refused> + Send) -> PyResult<T> {
    py.detach(work).map_err(|refused| refused.raised(py))
}

/// `caravan._lab`
#[pymodule]
mod _lab {
    use super::request::Held;
    use super::{answers, apart};
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::refused::{NoFormula, Refusal, Unpriced};

    /// A scenario that is read and resolved once, for all requests about it.
    #[pyclass(frozen)]
    struct Scenario(Held);

    #[pymethods]
    impl Scenario {
        #[new]
        fn new(py: Python<'_>, request: &str) -> PyResult<Self> {
            apart(py, || Held::read(request)).map(Self)
        }

        /// The name of its file in messages.
        #[getter]
        fn file(&self) -> &str {
            self.0.file()
        }

        /// Its contents, its addresses and routes, and its hash. Each of `graph.setup.tunnels` has
        /// its policy as `protection`: the keys of a policy file, with their defaults.
        #[pyo3(signature = (run = None, /))]
        fn resolved(&self, py: Python<'_>, run: Option<&str>) -> PyResult<String> {
            apart(py, || Ok(answers::resolved(&self.0, run)?.to_string()))
        }

        /// The theoretical results of its queues.
        fn model(&self, py: Python<'_>) -> PyResult<String> {
            apart(py, || answers::model(&self.0))
        }

        /// Some replications, for `outcome`.
        #[pyo3(signature = (run = None, /))]
        fn simulate(&self, py: Python<'_>, run: Option<&str>) -> PyResult<Vec<u8>> {
            apart(py, || answers::simulate(&self.0, run))
        }

        /// The packets of a capture, sent through its queues under several policies.
        fn replay(&self, py: Python<'_>, policies: Vec<String>, path: &str) -> PyResult<String> {
            apart(py, || answers::replay(&self.0, &policies, path))
        }

        /// Times and sizes of the datagrams of each flow.
        fn departures(&self, py: Python<'_>) -> PyResult<String> {
            apart(py, || super::kernel::departures(&self.0))
        }

        /// The same scenario with the real engine, computed and simulated; its packets are written
        /// to a capture.
        #[pyo3(signature = (capture = None, /))]
        fn kernel(&self, py: Python<'_>, capture: Option<&str>) -> PyResult<String> {
            apart(py, || super::kernel::kernel(&self.0, capture))
        }
    }

    /// The version of this build.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// A checksum of the sources of this build.
    #[pyfunction]
    fn sources() -> &'static str {
        env!("CARAVAN_SOURCES")
    }

    /// The cost of one packet on a device.
    #[pyfunction]
    fn price(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || answers::price(request))
    }

    /// The sizes of packets under a policy.
    #[pyfunction]
    fn sizes(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || super::sizes::of(request))
    }

    /// What an exchange of messages takes over a link.
    #[pyfunction]
    fn exchange(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || super::exchange::of(request))
    }

    /// One flow between two hosts in closed form.
    #[pyfunction]
    fn hosts(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || super::hosts::of(request))
    }

    /// The evaluation of the replications of one scenario.
    #[pyfunction]
    fn outcome(py: Python<'_>, tallies: Vec<Vec<u8>>) -> PyResult<String> {
        apart(py, || answers::outcome(&tallies))
    }

    /// The devices, links and policies of a catalogue, or the errors in it.
    #[pyfunction]
    fn listing(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || super::listing::of(request))
    }

    /// The names of catalogue texts in a scenario's text after edits, as pairs of kind and name.
    #[pyfunction]
    fn named(py: Python<'_>, file: &str, text: &str, edits: Vec<String>) -> PyResult<String> {
        apart(py, || super::text::named(file, text, &edits))
    }

    /// A TOML text with the position of every value in it.
    #[pyfunction]
    fn document(py: Python<'_>, file: &str, text: &str) -> PyResult<String> {
        apart(py, || super::text::document(file, text))
    }

    /// The valid word that a misspelt or shortened word stands for.
    #[pyfunction]
    fn nearest(word: &str, valid: Vec<String>) -> Option<String> {
        ::document::nearest(word, valid.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Half a sentence: the most similar valid word, or if none is similar all valid ones.
    #[pyfunction]
    fn choices(word: &str, valid: Vec<String>) -> String {
        ::document::choices(word, valid.iter().map(String::as_str))
    }
}
