//! How the example talks: headings, numbers, bars.

use std::fmt::Display;

use indicatif::{ProgressBar, ProgressStyle};

/// The width of the longest bar, in characters.
const WIDTH: usize = 40;

/// Prints the title of the next part.
pub(crate) fn heading(title: &str) {
    println!("\n{title}");
}

/// A number with its thousands apart: `27,004`.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Prints one line per count, with a bar; the longest bar is the largest count.
pub(crate) fn bars<L: Display>(counts: &[(L, i64)], unit: &str) {
    let labels: Vec<String> = counts.iter().map(|(label, _)| label.to_string()).collect();
    let label_width = labels
        .iter()
        .map(|label| label.chars().count())
        .max()
        .unwrap_or(0);
    let largest = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let number_width = grouped(largest).len();
    for (label, (_, count)) in labels.iter().zip(counts) {
        println!(
            "  {label:label_width$}  {:>number_width$} {unit}  {}",
            grouped(*count),
            bar(*count, largest)
        );
    }
}

/// A bar in eighths of a character; whatever is not nothing can be seen.
fn bar(count: i64, largest: i64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if count <= 0 {
        return String::new();
    }
    let eighths = (count as f64 / largest as f64 * (WIDTH * 8) as f64).round() as usize;
    let eighths = eighths.max(1);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A progress bar for the load. Where the output is no terminal it stays hidden, and one line per
/// shard is printed instead.
pub(crate) fn progress(flights: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("  {msg:8}  {human_pos:>6} of {human_len} flights  {bar:40}");
    let style = style
        .expect("the template is a constant")
        .progress_chars("█▉▊▋▌▍▎▏ ");
    ProgressBar::new(flights as u64).with_style(style)
}
