//! How near vectors are to each other.

/// How near two vectors are, from -1 to 1; 0 for those that cannot be compared.
pub(super) fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosine = dot(one, other) / (dot(one, one).sqrt() * dot(other, other).sqrt());
    let is_usable = one.len() == other.len() && cosine.is_finite();
    if is_usable { cosine.clamp(-1.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_that_cannot_be_compared_are_not_near() {
        assert_eq!(cosine(&[3.0, 4.0], &[6.0, 8.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[-2.0, 0.0]), -1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 5.0]), 0.0);
        for bad in [&[][..], &[0.0, 0.0], &[1.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert_eq!((cosine(bad, &[1.0, 1.0]), cosine(&[1.0, 1.0], bad)), (0.0, 0.0), "{bad:?}");
        }
    }
}
