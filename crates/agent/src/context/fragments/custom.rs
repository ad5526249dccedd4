//! The caller's addition to the instructions for one run. Its bound is that of the request.

pub(super) fn text(custom: Option<&str>) -> String {
    custom.unwrap_or_default().trim().to_owned()
}
