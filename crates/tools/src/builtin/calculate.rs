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
    let parsed = FlatEx::<f64>::parse(&with_operators(expression)).map_err(unreadable)?;
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

/// The expression with signs that people write put as operators: `17.5 % of 2,480` is `(17.5/100) * 2480`.
fn with_operators(expression: &str) -> String {
    let plain = expression.replace(['×', '·'], "*").replace('÷', "/").replace('−', "-").replace("**", "^");
    let mut text = String::new();
    // For each open parenthesis, whether it belongs to a function, whose arguments have commas between them.
    let mut open = Vec::new();
    let mut rest = plain.trim_end_matches(['=', '?', ' ']);
    while let Some(sign) = rest.chars().next() {
        rest = rest.get(sign.len_utf8()..).unwrap_or_default();
        match sign {
            '%' => rest = put_percent(&mut text, rest),
            ',' if open.last() != Some(&true) && text.ends_with(is_digit) && is_thousand(rest) => {}
            '(' => {
                open.push(text.trim_end().ends_with(char::is_alphanumeric));
                text.push(sign);
            }
            ')' => {
                open.pop();
                text.push(sign);
            }
            _ => text.push(sign),
        }
    }
    text
}

/// Puts the number at the end of a text as a hundredth of it, and gives what follows the sign. The sign stays, and cannot
/// be read later, where people mean different things: `17 % 5`, `100 + 10 %`, `200 / 10 % of 50`.
fn put_percent<'a>(text: &mut String, after: &'a str) -> &'a str {
    let begin = text.trim_end().trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
    let number = text.get(begin.len()..).unwrap_or_default().trim().to_owned();
    let (begin, before) = (begin.len(), begin.trim_end());
    let next = after.trim_start();
    let share = next.strip_prefix("of ").filter(|_| !before.ends_with(['/', '^']));
    let is_end = !next.starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '(');
    let is_clear = share.is_some() || (is_end && !before.ends_with(['+', '-']));
    if number.is_empty() || !is_clear {
        text.push('%');
        return after;
    }
    text.truncate(begin);
    text.push_str(&format!("({number}/100)"));
    if share.is_some() {
        text.push_str(" * ");
    }
    share.unwrap_or(after)
}

fn is_digit(sign: char) -> bool {
    sign.is_ascii_digit()
}

/// Whether a text begins with exactly three digits.
fn is_thousand(text: &str) -> bool {
    text.bytes().take_while(u8::is_ascii_digit).count() == 3
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
        for (expression, value) in [
            ("2+2", 4.0),
            ("(17.5 * 3 + 2)^2 / 7", 424.321_428_571_428_6),
            ("-2^2", 4.0),
            ("sqrt(2)^2", 2.0),
            ("17.5 % of 2,480", 434.0),
            ("17.5% * 2480", 434.0),
            ("200 / 10 %", 2000.0),
            ("100 + 10% of 50", 105.0),
            ("3 × 4 ÷ 2 − 1 =", 5.0),
            ("2**10", 1024.0),
            ("(1,200 + 3) * 2", 2406.0),
            ("max(1,200) + 1", 201.0),
            ("max(1,(2,300))", 2300.0),
        ] {
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
            ("17 % 5", "bad_expression"),
            ("100 + 10 %", "bad_expression"),
            ("200 / 10 % of 50", "bad_expression"),
            ("(3 + 4) %", "bad_expression"),
            ("%", "bad_expression"),
            ("1/0", "no_value"),
            ("ln(0)", "no_value"),
        ] {
            assert_eq!(evaluate(expression).unwrap_err().error, error, "{expression}");
        }
    }
}
