//! A page of its own for a browser: plots, tables, the machine, how to repeat it. It needs no other file.

use std::fmt::Write as _;

use crate::report::Report;
use crate::study::Study;
use crate::svg::escaped;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
background:#fff;color:#1c2024}\
svg{max-width:100%;height:auto;border:1px solid #e2e6ea;border-radius:6px}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px}\
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #e2e6ea;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}.detail{padding-left:2rem}.dim,caption{color:#5d6672}\
caption{text-align:left;padding:.3rem .8rem}\
pre{background:#f4f6f8;padding:.7rem;border-radius:6px;overflow-x:auto}\
@media (prefers-color-scheme:dark){body{background:#15181c;color:#e6e9ec}svg,th,td{border-color:#2b3138}\
.dim,caption{color:#9aa4af}pre{background:#1f242a}}";

/// Writes the page.
pub(crate) fn write(study: &Study) -> String {
    let first = study.first();
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>kohort bench: {title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{scenario}</h1>\n\
         <p>{title}; {footing}. Medians; the line on a bar and the line through a point reach from the lowest to the \
         highest repetition.{ratios}</p>\n",
        title = escaped(&study.heading()),
        scenario = escaped(first.scenario),
        footing = escaped(&first.footing()),
        ratios = match first.targets().next() {
            Some(name) if first.series.len() > 1 => format!(
                " × is the ratio to {}, taken in each repetition; the middle of these is shown.",
                escaped(name)
            ),
            _ => String::new(),
        },
    );
    text.push_str(&study.drawing());
    let mut doubts = String::new();
    for (value, report) in study.runs() {
        let point = value.map_or(String::new(), |(name, value)| format!("{name} {value}"));
        text.push_str(&table(report, &point));
        for (target, doubt) in report.doubts() {
            let place = if point.is_empty() { target.to_owned() } else { format!("{target}, {point}") };
            let _ = writeln!(doubts, "<li>{}: {}</li>", escaped(&place), escaped(&doubt.to_string()));
        }
    }
    if !doubts.is_empty() {
        let _ = write!(text, "<h2>Doubts</h2>\n<ul>\n{doubts}</ul>\n");
    }
    let machine = &first.machine;
    let _ = write!(
        text,
        "<h2>Machine</h2>\n<p>{} cores, shared by load and server if both are on it; {}; memory {}; Linux {}.</p>\n\
         <h2>Repeat it</h2>\n<pre>{}</pre>\n<p class=\"dim\">kohort {}</p>\n</body>\n</html>\n",
        machine.cores,
        escaped(&machine.processor),
        escaped(&machine.memory),
        escaped(&machine.kernel),
        escaped(&first.command),
        env!("CARGO_PKG_VERSION"),
    );
    text
}

fn table(report: &Report, caption: &str) -> String {
    let mut text = String::from("<div class=\"wide\"><table>\n");
    if !caption.is_empty() {
        let _ = writeln!(text, "<caption>{}</caption>", escaped(caption));
    }
    for (number, row) in report.rows().iter().enumerate() {
        text.push_str("<tr>");
        let tag = if number == 0 { "th" } else { "td" };
        for cell in row {
            let class = if cell.starts_with(' ') { " class=\"detail\"" } else { "" };
            let _ = write!(text, "<{tag}{class}>{}</{tag}>", escaped(cell.trim_start()));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table></div>\n");
    text
}

/// What somebody types to do again what this process does.
pub(crate) fn this_command() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    format!("kohort {}", words.join(" "))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_=,.:/@+".contains(char);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::tests::report;
    use crate::study::tests::growth;

    #[test]
    fn a_page_needs_no_other_file() {
        for study in [Study::Single(report()), growth()] {
            let page = write(&study);
            for outside in ["src=", "href=", "url(", "<script", "@import", "<link"] {
                assert!(!page.contains(outside), "{outside}");
            }
            assert!(page.contains("prefers-color-scheme:dark"));
        }
    }

    #[test]
    fn a_page_has_plot_table_doubts_machine_and_command() {
        let page = write(&Study::Single(report()));
        let page = page.replace(&format!("kohort {}<", env!("CARGO_PKG_VERSION")), "kohort VERSION<");
        let (head, rest) = page.split_once("<style>").expect("a style");
        let (_, body) = rest.split_once("</style>").expect("its end");
        let (before, drawn) = body.split_once("<svg").expect("a drawing");
        let (_, after) = drawn.split_once("</svg>").expect("its end");
        expect![[r#"
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width">
            <title>kohort bench: heartbeat: members 64, groups of members 1</title>
            …
            </head>
            <body>
            <h1>heartbeat</h1>
            <p>heartbeat: members 64, groups of members 1; measured 2 times, 2 cores. Medians; the line on a bar and the line through a point reach from the lowest to the highest repetition. × is the ratio to kafka, taken in each repetition; the middle of these is shown.</p>
            …
            <div class="wide"><table>
            <tr><th></th><th>kafka</th><th>kohort</th></tr>
            <tr><td>heartbeats per second, 1 in flight</td><td>65,000 (60,000–70,000)</td><td>682,284 (130,000–1,234,567)  ×6.18</td></tr>
            <tr><td class="detail">latency p50, 1 in flight, ms</td><td>0.850 (0.800–0.900)</td><td>0.064 (0.064–0.064)  ×0.075</td></tr>
            <tr><td>generations</td><td>1 (1–1)</td><td>–</td></tr>
            </table></div>
            <h2>Doubts</h2>
            <ul>
            <li>kohort: 1 in flight: the load took 1.1 cores</li>
            </ul>
            <h2>Machine</h2>
            <p>2 cores, shared by load and server if both are on it; a fast one; memory 8 kB; Linux 6.1.</p>
            <h2>Repeat it</h2>
            <pre>kohort bench heartbeat --compare 'a&lt;b=c'</pre>
            <p class="dim">kohort VERSION</p>
            </body>
            </html>
        "#]].assert_eq(&format!("{head}…{before}…{after}"));
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--compare"), "--compare");
        assert_eq!(quoted("a=127.0.0.1:9092,b=c:1"), "a=127.0.0.1:9092,b=c:1");
        assert_eq!(quoted("kohort serve"), "'kohort serve'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
