//! Serdes of keys in windows: made of the serde of the key within.

use crate::spec::SerdeSpec;
use crate::window::Window;

/// Keys of a window.
pub(super) fn windowed(inner: &SerdeSpec, window: &Window) -> SerdeSpec {
    match window.size_ms() {
        Some(size_ms) => SerdeSpec::TimeWindowed {
            time_windowed: Box::new(inner.clone()),
            size_ms,
        },
        None => SerdeSpec::SessionWindowed {
            session_windowed: Box::new(inner.clone()),
        },
    }
}

/// A serde for the keys within, where the keys above are in windows; a serde for windowed keys stays.
pub(super) fn in_window_of(above: &SerdeSpec, own: SerdeSpec) -> SerdeSpec {
    match (above, &own) {
        (_, SerdeSpec::TimeWindowed { .. } | SerdeSpec::SessionWindowed { .. }) => own,
        (SerdeSpec::TimeWindowed { size_ms, .. }, _) => SerdeSpec::TimeWindowed {
            time_windowed: Box::new(own),
            size_ms: *size_ms,
        },
        (SerdeSpec::SessionWindowed { .. }, _) => SerdeSpec::SessionWindowed {
            session_windowed: Box::new(own),
        },
        _ => own,
    }
}
