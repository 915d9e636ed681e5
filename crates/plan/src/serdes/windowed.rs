//! Serdes of windowed keys, derived from the serde of the key inside.

use crate::spec::SerdeSpec;
use crate::window::Window;

/// The serde of keys in this kind of window.
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

/// Wraps a serde for the keys inside if the keys above are windowed; a serde for windowed keys stays as
/// it is.
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
