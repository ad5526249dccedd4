//! A network small enough to check by hand, against a plain reading of what BERT is.

mod files;
mod network;
mod threads;
mod tiny;
mod words;
