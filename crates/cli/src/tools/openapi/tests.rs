//! Each rule of the mapping, on descriptions that are about nothing else.
