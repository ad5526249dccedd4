//! Tests of the choice of tokens.

use super::*;

fn settings(temperature: f64) -> Settings {
    Settings { temperature: Some(temperature), top_p: Some(1.0), ..Settings::default() }
}

#[test]
fn without_temperature_the_likeliest_is_taken() {
    let mut sampler = Sampler::new(&settings(0.0), None, false);
    assert_eq!(sampler.choose(&mut [0.1, 3.0, f32::NAN, 3.0], &[]), Some(1));
    assert_eq!(sampler.choose(&mut [f32::NEG_INFINITY; 3], &[]), None);
    assert_eq!(sampler.choose(&mut [], &[]), None);
}

#[test]
fn tokens_are_drawn_as_often_as_they_are_likely() {
    let mut sampler = Sampler::new(&settings(1.0), Some(1), false);
    let mut counts = [0; 3];
    for _ in 0..4_000 {
        let token = sampler.choose(&mut [3.0_f32.ln(), 0.0, f32::NEG_INFINITY], &[]).unwrap();
        counts[token as usize] += 1;
    }
    assert!((2_800..3_200).contains(&counts[0]) && counts[2] == 0, "{counts:?}");
}

#[test]
fn top_p_leaves_out_the_unlikely_ones() {
    let mut sampler = Sampler::new(&Settings { top_p: Some(0.7), ..settings(1.0) }, Some(1), false);
    assert!((0..500).all(|_| sampler.choose(&mut [3.0_f32.ln(), 0.0], &[]) == Some(0)));
    let mut none = Sampler::new(&Settings { top_p: Some(0.0), ..settings(1.0) }, Some(1), false);
    assert_eq!(none.choose(&mut [0.0, 1.0], &[]), Some(1), "the likeliest always stays");
}

#[test]
fn the_same_seed_draws_the_same() {
    let draw = |seed| {
        let mut sampler = Sampler::new(&settings(1.0), Some(seed), false);
        (0..50).map(|_| sampler.choose(&mut [0.0; 100], &[]).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}

#[test]
fn what_was_said_is_said_less() {
    let choose = |settings: Settings, before: &[u32]| {
        Sampler::new(&settings, None, false).choose(&mut [2.0, 1.5, -1.0], before)
    };
    let repeat = Settings { repeat_penalty: Some(1.5), ..settings(0.0) };
    assert_eq!((choose(repeat.clone(), &[]), choose(repeat, &[0, 9_999])), (Some(0), Some(1)));
    let presence = Settings { presence_penalty: Some(0.3), ..settings(0.0) };
    assert_eq!(choose(presence, &[0, 0]), Some(0));
    let frequency = Settings { frequency_penalty: Some(0.3), ..settings(0.0) };
    assert_eq!((choose(frequency.clone(), &[0]), choose(frequency, &[0, 0])), (Some(0), Some(1)));
    for none in [0.0, 0.5, 1.0] {
        let nothing = Settings { repeat_penalty: Some(none), ..settings(0.0) };
        let choose =
            |before: &[u32]| Sampler::new(&nothing, None, false).choose(&mut [2.0, 1.5, -1.0], before);
        assert_eq!((choose(&[0]), choose(&[1, 1])), (Some(0), Some(0)), "{none}");
    }
}
