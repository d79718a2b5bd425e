//! First in, first out stations in series, streamed without an event heap.
