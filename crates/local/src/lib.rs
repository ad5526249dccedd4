//! Language models and embeddings in this process: no server, no key, no GPU.

pub mod chat;
pub mod embed;
pub mod gguf;
mod grammar;
#[expect(unsafe_code, reason = "wide instructions, and threads that share one buffer")]
pub mod kernels;
pub mod llama;
mod sample;
mod template;
#[cfg(test)]
mod tests;
pub mod tokenizer;
mod tool_choice;
