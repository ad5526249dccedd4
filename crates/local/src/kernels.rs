//! The arithmetic of a model, as fast as the processor allows: the only part of this crate with unsafe code.
//!
//! Which instructions the processor has is found out when the program runs, so one binary serves all. Every fast path
//! has a plain one beside it that gives the same numbers.

/// Compiles a function once for each kind of processor, and picks one when it is called.
macro_rules! for_each_cpu {
    ($(#[$doc:meta])* $name:ident = $body:ident($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(crate) fn $name(cpu: Cpu, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            fn wide($($argument: $type),*) {
                $body($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn narrow($($argument: $type),*) {
                $body($($argument),*)
            }
            match cpu.0 {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a `Cpu` of this level exists only where the processor has these instructions.
                Level::Vnni => unsafe { wide($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx2 => unsafe { narrow($($argument),*) },
                #[cfg(not(target_arch = "x86_64"))]
                Level::Vnni | Level::Avx2 => $body($($argument),*),
                Level::Plain => $body($($argument),*),
            }
        }
    };
}

mod dot;
mod float;
mod packed_weights;
mod pool;
#[cfg(test)]
mod tests;

pub(crate) use float::{Attention, add, attend, centre, dot, gelu, normalise, rotate, swiglu};
pub use packed_weights::{Activations, GROUP, Matrix};
pub use pool::KernelPool;

/// Numbers that share a scale.
pub const BLOCK: usize = 32;

/// The abilities of the processor. The only way to get one is to look, which is what makes the fast paths sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there are no such processors here"))]
enum Level {
    /// 512 bits, with dot products of bytes.
    Vnni,
    /// 256 bits, with fused multiplication.
    Avx2,
    Plain,
}

impl Cpu {
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            if fused && wide {
                return Self(Level::Vnni);
            }
            if fused {
                return Self(Level::Avx2);
            }
        }
        Self(Level::Plain)
    }

    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Vnni => "AVX-512 VNNI",
            Level::Avx2 => "AVX2",
            Level::Plain => "plain",
        }
    }

    /// Returns this processor and every lesser one it can stand in for.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let best = Self::detect();
        let lesser: &[Level] = match best.0 {
            Level::Vnni => &[Level::Vnni, Level::Avx2, Level::Plain],
            Level::Avx2 => &[Level::Avx2, Level::Plain],
            Level::Plain => &[Level::Plain],
        };
        lesser.iter().map(|level| Self(*level)).collect()
    }
}
