//! QR codes as they are shown: in a terminal and as a picture.

use core::fmt::Write as _;

use qrcodegen::QrCode;

/// Light modules around a code (ISO/IEC 18004 §9.1).
pub(crate) const BORDER: i32 = 4;

/// For a terminal. Two modules above each other are one character.
pub(crate) fn draw(code: &QrCode, page: &mut String) {
    let span = -BORDER..code.size() + BORDER;
    for y in span.clone().step_by(2) {
        for x in span.clone() {
            // Light is drawn, so that it is light on a dark terminal.
            page.push(match (code.get_module(x, y), code.get_module(x, y + 1)) {
                (false, false) => '█',
                (false, true) => '▀',
                (true, false) => '▄',
                (true, true) => ' ',
            });
        }
        page.push('\n');
    }
}

/// A picture inside a page.
pub(crate) fn svg(code: &QrCode, page: &mut String) {
    let size = code.size() + 2 * BORDER;
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {size} {size}\" shape-rendering=\"crispEdges\"><path d=\""
    );
    for y in 0..code.size() {
        for x in (0..code.size()).filter(|x| code.get_module(*x, y)) {
            let _ = write!(page, "M{},{}h1v1h-1z", x + BORDER, y + BORDER);
        }
    }
    page.push_str("\"/></svg>");
}
