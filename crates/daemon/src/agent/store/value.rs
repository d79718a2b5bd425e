//! Parameters and columns, as both databases know them.

use zeroize::Zeroizing;

use super::StoreError;

/// A parameter or a column. It has no `Debug`: it may be a secret.
#[derive(Clone)]
pub(super) enum Value {
    Nothing,
    Number(i64),
    Text(String),
    Octets(Zeroizing<Vec<u8>>),
}

/// The columns of a row, read in their order.
pub(super) struct Row(std::vec::IntoIter<Value>);

impl Value {
    pub(super) fn octets(octets: &[u8]) -> Self {
        Self::Octets(Zeroizing::new(octets.to_vec()))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Option<Value>> for Value {
    fn from(value: Option<Value>) -> Self {
        value.unwrap_or(Self::Nothing)
    }
}

impl Row {
    pub(super) fn new(columns: Vec<Value>) -> Self {
        Self(columns.into_iter())
    }

    pub(super) fn value(&mut self) -> Value {
        self.0.next().unwrap_or(Value::Nothing)
    }

    pub(super) fn number(&mut self) -> Result<i64, StoreError> {
        match self.value() {
            Value::Number(number) => Ok(number),
            _ => Err(StoreError::Damaged("a column is no number")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        match self.value() {
            Value::Text(text) => Ok(text),
            _ => Err(StoreError::Damaged("a column is no text")),
        }
    }

    pub(super) fn octets(&mut self) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        match self.value() {
            Value::Octets(octets) => Ok(octets),
            _ => Err(StoreError::Damaged("a column has no octets")),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<Zeroizing<[u8; N]>, StoreError> {
        let octets = self.octets()?;
        let array = octets[..].try_into().map(Zeroizing::new);
        array.map_err(|_| StoreError::Damaged("a column has another length"))
    }

    /// 0 or 1.
    pub(super) fn is(&mut self) -> Result<bool, StoreError> {
        Ok(self.number()? != 0)
    }
}
