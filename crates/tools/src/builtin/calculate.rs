//! Arithmetic, because models are bad at it.

use async_trait::async_trait;
use exmex::{Express, FlatEx};
use serde_json::{Value, json};

use super::text;
use crate::{Calling, Failed, Tool, ToolOutput};

/// Digits of a number that has a fraction.
const DIGITS: usize = 15;

/// From here on not every whole number has a place of its own.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

pub(crate) struct Calculate;

#[async_trait]
impl Tool for Calculate {
    async fn call(&self, calling: Calling<'_>) -> Result<ToolOutput, Failed> {
        let expression = text(&calling.input, "expression").unwrap_or_default();
        let value = number(evaluate(expression)?);
        Ok(json!({ "expression": expression, "value": value }).into())
    }
}

fn evaluate(expression: &str) -> Result<f64, Failed> {
    let percent = if expression.contains('%') { "; for 17.5 % of x write 17.5 / 100 * x" } else { "" };
    let message = format!("the expression cannot be read; write it with numbers and + - * / ^ ( ){percent}");
    let unreadable = |_| Failed::new("bad_expression", message.clone());
    let parsed = FlatEx::<f64>::parse(expression).map_err(unreadable)?;
    if let Some(name) = parsed.var_names().first() {
        return Err(Failed::new("bad_expression", format!("\"{name}\" is not a number or a function")));
    }
    let value = parsed.eval(&[]).map_err(unreadable)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Failed::new("no_value", "the expression has no finite value"))
    }
}

/// A whole number as one, as far as it is exact.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 {
        true if value.abs() < MAX_EXACT => json!(value as i64),
        true => json!(value),
        false => json!(rounded(value)),
    }
}

/// The value without the last digits, which come from the way a computer writes numbers: 0.1 + 0.2 is 0.3.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_no_fraction() {
        for (value, text) in [
            (42.0, "42"),
            (-3.0, "-3"),
            (-0.0, "0"),
            (0.5, "0.5"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333333"),
            (MAX_EXACT - 1.0, "9007199254740991"),
            (MAX_EXACT, "9007199254740992.0"),
        ] {
            assert_eq!(number(value).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_comes_out_right() {
        for (expression, value) in
            [("2+2", 4.0), ("(17.5 * 3 + 2)^2 / 7", 424.321_428_571_428_6), ("-2^2", 4.0), ("sqrt(2)^2", 2.0)]
        {
            let got = evaluate(expression).unwrap();
            assert!((got - value).abs() < 1e-9, "{expression} = {got}");
        }
    }

    #[test]
    fn what_has_no_value_is_said() {
        for (expression, error) in [
            ("", "bad_expression"),
            ("2 +", "bad_expression"),
            ("x + 1", "bad_expression"),
            ("1/0", "no_value"),
            ("ln(0)", "no_value"),
        ] {
            assert_eq!(evaluate(expression).unwrap_err().error, error, "{expression}");
        }
    }
}
