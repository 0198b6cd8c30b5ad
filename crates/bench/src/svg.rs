//! Drawings in the scalable vector format, written by hand: no fonts, no scripts, nothing from elsewhere.

use std::fmt::Write as _;

/// Colours and type for light and dark surroundings. Series have the same colours in every drawing.
const STYLE: &str = "\
.kb text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1c2024}\
.kb .head{font-weight:600}.kb .dim{fill:#5d6672;font-size:12px}\
.kb .paper{fill:#ffffff}.kb .grid{stroke:#e2e6ea}.kb .axis{stroke:#8b949e}.kb .range{stroke:#1c2024;opacity:.6}\
.kb .s0{fill:#2867b2;stroke:#2867b2}.kb .s1{fill:#c4570a;stroke:#c4570a}.kb .s2{fill:#4f7d28;stroke:#4f7d28}\
.kb .s3{fill:#8250a8;stroke:#8250a8}.kb .limit{fill:#8b949e;stroke:#8b949e}.kb polyline{fill:none;stroke-width:2}\
@media (prefers-color-scheme:dark){\
.kb text{fill:#e6e9ec}.kb .dim{fill:#9aa4af}\
.kb .paper{fill:#15181c}.kb .grid{stroke:#2b3138}.kb .axis{stroke:#6a737d}.kb .range{stroke:#e6e9ec}\
.kb .s0{fill:#6aa9f4;stroke:#6aa9f4}.kb .s1{fill:#f59a4a;stroke:#f59a4a}.kb .s2{fill:#8cc063;stroke:#8cc063}\
.kb .s3{fill:#c39ae6;stroke:#c39ae6}.kb .limit{fill:#7d8792;stroke:#7d8792}}";

/// A drawing that grows by marks; the origin is its upper left corner, a unit is a pixel.
#[derive(Debug)]
pub(crate) struct Svg {
    width: f64,
    height: f64,
    title: String,
    marks: String,
}

/// Where a text is anchored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty sheet; those who cannot see it are told the title.
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Self {
        Self { width, height, title: title.to_owned(), marks: String::new() }
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.mark(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#
        ));
    }

    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        self.mark(&format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" stroke="none" class="{class}"/>"#
        ));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.mark(&format!(r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#));
    }

    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        // The style of the class is for filled marks as well, so that the line says itself that it has none.
        self.mark(&format!(r#"<polyline points="{points}" class="{class}" style="fill:none"/>"#));
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, class: &str) {
        self.mark(&format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" class="{class}"/>"#));
    }

    /// The whole document, fit for a file of its own and for the middle of a page.
    pub(crate) fn finish(self) -> String {
        let Self { width, height, title, marks } = self;
        let title = escaped(&title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"kb\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect width=\"{width:.0}\" height=\"{height:.0}\" class=\"paper\"/>\n{marks}</svg>\n"
        )
    }

    fn mark(&mut self, mark: &str) {
        let _ = writeln!(self.marks, "{mark}");
    }
}

/// Text with what has a meaning in markup spelled out.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // No escape can bring these into a document.
            char if char.is_control() && char != '\n' && char != '\t' => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_elses_text_becomes_markup() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}");
        let mut svg = Svg::new(10.0, 10.0, "</title><script>");
        svg.text(0.0, 0.0, Anchor::Start, "dim", "<script>");
        let text = svg.finish();
        assert!(!text.contains("<script>"), "{text}");
    }
}
