//! A vector as it is kept: its length taken out, a byte for each number.

const LEVELS: f32 = 127.0;

/// A scale, then the numbers as multiples of it.
pub(super) fn encode(vector: &[f32]) -> Vec<u8> {
    let largest = vector.iter().fold(0.0f32, |largest, number| largest.max(number.abs()));
    let scale = if largest.is_finite() && largest > 0.0 { largest / LEVELS } else { 1.0 };
    let level = |number: &f32| ((number / scale).round().clamp(-LEVELS, LEVELS) as i8).cast_unsigned();
    scale.to_le_bytes().into_iter().chain(vector.iter().map(level)).collect()
}

/// None for bytes that are no vector.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<f32>> {
    let (scale, levels) = bytes.split_first_chunk::<4>()?;
    let scale = f32::from_le_bytes(*scale);
    Some(levels.iter().map(|level| f32::from(level.cast_signed()) * scale).collect())
}

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
    fn a_vector_keeps_its_direction() {
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
        let vector: Vec<f32> = (0..384u16).map(|n| (f32::from(n) * 0.7).sin() / 20.0).collect();
        let kept = decode(&encode(&vector)).unwrap();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let cosine = dot(&vector, &kept) / (dot(&vector, &vector) * dot(&kept, &kept)).sqrt();
        assert!(cosine > 0.9999, "{cosine}");
        assert_eq!(decode(&[1, 2]), None);
        assert_eq!(decode(&encode(&[0.0, f32::NAN])).unwrap(), [0.0, 0.0]);
    }

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
