//! The binding of the lab for Python: `caravan._lab`, typed in `python/caravan/_lab.pyi`.
//!
//! A `Scenario` is read and resolved once, and answers many questions. Texts and JSON come in, JSON
//! and opaque bytes go out, so that a request means the same in every process and on every machine.
//! While the lab computes, the interpreter is free: threads of Python spread replications over
//! cores. What is wrong with a request is a `Refusal` with a code for code and a sentence for
//! people. Left out: formulas, and files other than captures, whose packets are streamed.

mod answers;
mod listing;
mod refused;
mod request;
mod road;
mod text;

use pyo3::prelude::*;

use refused::Refused;

/// Runs `work` without the interpreter; what it refuses becomes an exception.
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

    /// A scenario that is read and resolved once, for every question about it.
    #[pyclass(frozen)]
    struct Scenario(Held);

    #[pymethods]
    impl Scenario {
        #[new]
        fn new(py: Python<'_>, request: &str) -> PyResult<Self> {
            apart(py, || Held::read(request)).map(Self)
        }

        /// How messages name its file.
        #[getter]
        fn file(&self) -> &str {
            self.0.file()
        }

        /// What it says, its addresses and ways, and its hash.
        #[pyo3(signature = (run = None, /))]
        fn resolved(&self, py: Python<'_>, run: Option<&str>) -> PyResult<String> {
            apart(py, || Ok(answers::resolved(&self.0, run)?.to_string()))
        }

        /// What queueing theory says of its stations.
        fn model(&self, py: Python<'_>) -> PyResult<String> {
            apart(py, || answers::model(&self.0))
        }

        /// Some replications, for `outcome`.
        #[pyo3(signature = (run = None, /))]
        fn simulate(&self, py: Python<'_>, run: Option<&str>) -> PyResult<Vec<u8>> {
            apart(py, || answers::simulate(&self.0, run))
        }

        /// The packets of a capture sent down its road under several policies.
        fn replay(&self, py: Python<'_>, policies: Vec<String>, path: &str) -> PyResult<String> {
            apart(py, || answers::replay(&self.0, &policies, path))
        }

        /// The same road with the real node on it, computed and simulated; its packets go to a
        /// capture.
        #[pyo3(signature = (capture = None, /))]
        fn kernel(&self, py: Python<'_>, capture: Option<&str>) -> PyResult<String> {
            apart(py, || super::road::kernel(&self.0, capture))
        }
    }

    /// The version of this build.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// A check of the sources that this build is of.
    #[pyfunction]
    fn sources() -> &'static str {
        env!("CARAVAN_SOURCES")
    }

    /// What one packet costs on a device.
    #[pyfunction]
    fn price(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || answers::price(request))
    }

    /// What the replications of one scenario say together.
    #[pyfunction]
    fn outcome(py: Python<'_>, tallies: Vec<Vec<u8>>) -> PyResult<String> {
        apart(py, || answers::outcome(&tallies))
    }

    /// Devices, links and policies of a catalogue, or what is wrong with one.
    #[pyfunction]
    fn listing(py: Python<'_>, request: &str) -> PyResult<String> {
        apart(py, || super::listing::of(request))
    }

    /// A TOML text with the place of everything in it.
    #[pyfunction]
    fn document(py: Python<'_>, file: &str, text: &str) -> PyResult<String> {
        apart(py, || super::text::document(file, text))
    }

    /// The valid word that a word is a slip or a part of.
    #[pyfunction]
    fn nearest(word: &str, valid: Vec<String>) -> Option<String> {
        ::document::nearest(word, valid.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Half a sentence: the nearest valid word, else all valid ones.
    #[pyfunction]
    fn choices(word: &str, valid: Vec<String>) -> String {
        ::document::choices(word, valid.iter().map(String::as_str))
    }
}
