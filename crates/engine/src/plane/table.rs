//! Inbound SAs by SPI: open addressing by the low bits of the SPI. We choose our SPIs at random, so
//! a lookup takes about one step, and no peer can cause collisions.

use crate::plane::opener::Opener;

/// SAs by SPI.
#[derive(Default)]
pub(crate) struct Table {
    /// Empty, or a power of two of places, at most three quarters of them used.
    places: Vec<Option<(u32, Box<Opener>)>>,
    taken: usize,
}

const MIN_PLACES: usize = 8;

impl Table {
    pub(crate) fn find(&mut self, spi: u32) -> Option<&mut Opener> {
        let at = self.locate(spi)?;
        self.places[at].as_mut().map(|place| &mut *place.1)
    }

    /// Adds an SA; it replaces one with the same SPI.
    pub(crate) fn insert(&mut self, opener: Box<Opener>) {
        self.remove(opener.spi);
        if (self.taken + 1) * 4 > self.places.len() * 3 {
            let size = (self.places.len() * 2).max(MIN_PLACES);
            let mut grown = Vec::with_capacity(size);
            grown.resize_with(size, || None);
            for place in core::mem::replace(&mut self.places, grown) {
                self.put(place);
            }
        }
        self.taken += 1;
        self.put(Some((opener.spi, opener)));
    }

    pub(crate) fn remove(&mut self, spi: u32) -> Option<Box<Opener>> {
        let at = self.locate(spi)?;
        let removed = self.places[at].take();
        self.taken -= 1;
        // entries after the removed one may belong further up
        let mask = self.places.len() - 1;
        let mut next = (at + 1) & mask;
        while self.places[next].is_some() {
            let place = self.places[next].take();
            self.put(place);
            next = (next + 1) & mask;
        }
        removed.map(|place| place.1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Opener> {
        self.places.iter().flatten().map(|place| &*place.1)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Opener> {
        self.places.iter_mut().flatten().map(|place| &mut *place.1)
    }

    fn put(&mut self, place: Option<(u32, Box<Opener>)>) {
        let Some((spi, _)) = &place else { return };
        let mask = self.places.len() - 1;
        let mut at = *spi as usize & mask;
        while self.places[at].is_some() {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    fn locate(&self, spi: u32) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = spi as usize & mask;
        loop {
            if self.places[at].as_ref()?.0 == spi {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }
}
