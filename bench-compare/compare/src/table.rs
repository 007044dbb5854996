//! Medians of all rounds, as Markdown.

use std::collections::BTreeMap;

use crate::{
    Values,
    plan::{FIGURES, TABLES},
};

/// Prints a table for each kind of durability, with how many times better Esker is than the best of the others.
pub(crate) fn print(values: &Values, units: &BTreeMap<String, String>) {
    for (number, table) in TABLES.iter().enumerate() {
        if !values.keys().any(|(table, _, _)| *table == number) {
            continue;
        }
        println!("\n{}\n", table.title);
        let titles: Vec<_> = table.columns.iter().map(|column| column.title).collect();
        println!("| | unit | {} | Esker to the best other |", titles.join(" | "));
        println!("|---|---|{}", "---:|".repeat(titles.len() + 1));
        for (figure, description) in FIGURES {
            let Some(unit) = units.get(*figure) else { continue };
            let medians: Vec<Option<f64>> = (0..titles.len())
                .map(|column| {
                    values
                        .get(&(number, (*figure).to_owned(), column))
                        .map(|values| median(values))
                })
                .collect();
            let cells: Vec<String> = medians
                .iter()
                .map(|median| median.map_or_else(String::new, number_of))
                .collect();
            println!(
                "| {description} | {unit} | {} | {} |",
                cells.join(" | "),
                advantage(&medians, unit)
            );
        }
    }
}

/// How many times better the first is than the best of the others: above 1 it is ahead.
fn advantage(medians: &[Option<f64>], unit: &str) -> String {
    let (Some(Some(esker)), others) = (medians.first(), medians.iter().skip(1).flatten().copied()) else {
        return String::new();
    };
    let ratio = if unit.ends_with("/s") {
        others.reduce(f64::max).map(|best| esker / best)
    } else {
        others.reduce(f64::min).map(|best| best / esker)
    };
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.1}"))
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

/// Three digits are enough, and thousands stand apart.
fn number_of(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.*}", if value < 10.0 { 2 } else { 1 });
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
