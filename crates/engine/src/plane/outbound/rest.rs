//! Keys that rest while their SAs carry nothing.

use super::OutboundPlane;

impl OutboundPlane {
    /// As [`InboundPlane::rest`](crate::plane::InboundPlane::rest).
    pub fn rest(&mut self) {
        let children = self.children.iter_mut().flatten();
        let sealers = children.flat_map(|child| &mut child.sealers);
        sealers.for_each(|sealer| sealer.rest());
    }

    /// SAs whose keys are prepared.
    #[cfg(test)]
    pub(crate) fn prepared(&self) -> usize {
        let children = self.children.iter().flatten();
        let sealers = children.flat_map(|child| &child.sealers);
        sealers.filter(|it| it.is_prepared()).count()
    }
}
