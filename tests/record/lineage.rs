//! Trees, lists and `onward`.
