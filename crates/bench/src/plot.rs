//! Figures as drawings: bars to compare, curves to see how cost grows.

pub use crate::number::{grouped, ratio};
pub use crate::statistics::{Spread, ratio_in_turns, ratio_of_medians};

use crate::number;
use crate::svg::{Anchor, Svg};

/// Which way a figure is better, said beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// More is better.
    More,
    /// Less is better.
    Less,
}

/// Figures side by side: each has a scale of its own that begins at zero.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What the whole is about.
    pub title: String,
    /// What is compared, from above to below.
    pub figures: Vec<BarFigure>,
}

/// One figure of several targets.
#[derive(Clone, Debug)]
pub struct BarFigure {
    /// What it is, with its unit.
    pub name: String,
    /// Which way it is better.
    pub aim: Aim,
    /// Who reached what: a name, a value, and a remark behind the value. The first has the first colour.
    pub bars: Vec<(String, Spread, String)>,
}

/// How figures change with a number.
#[derive(Clone, Debug)]
pub struct Curves {
    /// What the whole is about.
    pub title: String,
    /// The number.
    pub along: String,
    /// What is seen, each in a frame of its own.
    pub panels: Vec<Panel>,
}

/// One figure of several targets along a number.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it is, with its unit.
    pub name: String,
    /// Which way it is better.
    pub aim: Aim,
    /// Who reached what at which number, by name. The first has the first colour.
    pub curves: Vec<(String, Vec<(f64, Spread)>)>,
}

const WIDTH: f64 = 800.0;
const MARGIN: f64 = 16.0;
const TITLE: f64 = 44.0;

/// About how many letters of a title there is room for.
const TITLE_LETTERS: usize = 104;

impl Bars {
    /// The drawing as a document.
    #[must_use]
    pub fn draw(&self) -> String {
        const NAME: f64 = 24.0;
        const STEP: f64 = 21.0;
        const BAR: f64 = 15.0;
        const GAP: f64 = 14.0;
        /// Where bars begin, behind the names, and how long the longest may be, before the values.
        const BEGIN: f64 = 110.0;
        const LONGEST: f64 = 440.0;

        #[expect(clippy::cast_precision_loss, reason = "a few bars")]
        let tall = |figure: &BarFigure| NAME + STEP * figure.bars.len() as f64 + GAP;
        let height = TITLE + self.figures.iter().map(tall).sum::<f64>() + MARGIN;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.text(MARGIN, 26.0, Anchor::Start, "head", &shortened(&self.title, TITLE_LETTERS));
        let names = distinct(self.figures.iter().flat_map(|figure| &figure.bars).map(|(name, ..)| name));
        let mut y = TITLE;
        for figure in &self.figures {
            svg.text(MARGIN, y + 14.0, Anchor::Start, "", &shortened(&figure.name, 90));
            svg.text(WIDTH - MARGIN, y + 14.0, Anchor::End, "dim", figure.aim.hint());
            y += NAME;
            let highest = figure.bars.iter().map(|(_, spread, _)| spread.high).fold(0.0, f64::max);
            let length = |value: f64| if highest > 0.0 { (value / highest).max(0.0) * LONGEST } else { 0.0 };
            for (name, spread, remark) in &figure.bars {
                let class = class(name, &names);
                let (middle, base) = (y + BAR / 2.0, y + 12.0);
                svg.text(BEGIN - 8.0, base, Anchor::End, "dim", &shortened(name, 14));
                // A bar of nothing is still to be seen.
                svg.rect(BEGIN, y, length(spread.median).max(1.0), BAR, class);
                if spread.high > spread.low {
                    let (low, high) = (BEGIN + length(spread.low), BEGIN + length(spread.high));
                    svg.line((low, middle), (high, middle), "range");
                    for end in [low, high] {
                        svg.line((end, middle - 3.0), (end, middle + 3.0), "range");
                    }
                }
                let end = BEGIN + length(spread.high.max(spread.median)) + 8.0;
                let behind = if remark.is_empty() { String::new() } else { format!("  {remark}") };
                let label = format!("{}{behind}", grouped(spread.median));
                svg.text(end, base, Anchor::Start, "", &label);
                y += STEP;
            }
            y += GAP;
        }
        svg.finish()
    }
}

/// The size of a panel, and the room inside it for what stands beside the plot.
const PANEL: (f64, f64) = (384.0, 278.0);
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 46.0;

impl Curves {
    /// The drawing as a document.
    #[must_use]
    pub fn draw(&self) -> String {
        const LEGEND: f64 = 24.0;
        let rows = self.panels.len().div_ceil(2);
        #[expect(clippy::cast_precision_loss, reason = "a few panels")]
        let height = TITLE + LEGEND + PANEL.1 * rows as f64;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.text(MARGIN, 26.0, Anchor::Start, "head", &shortened(&self.title, TITLE_LETTERS));
        let names = distinct(self.panels.iter().flat_map(|panel| &panel.curves).map(|(name, _)| name));
        let mut x = MARGIN;
        for known in &names {
            let (class, name) = (class(known, &names), shortened(known, 24));
            svg.line((x, TITLE + 6.0), (x + 20.0, TITLE + 6.0), class);
            svg.dot(x + 10.0, TITLE + 6.0, class);
            svg.text(x + 27.0, TITLE + 10.0, Anchor::Start, "", &name);
            #[expect(clippy::cast_precision_loss, reason = "a short name")]
            let wide = name.chars().count() as f64 * 7.5;
            x += 50.0 + wide;
        }
        for (place, panel) in self.panels.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a few panels")]
            let corner =
                (8.0 + (PANEL.0 + 8.0) * (place % 2) as f64, TITLE + LEGEND + PANEL.1 * (place / 2) as f64);
            panel.draw(&mut svg, corner, &self.along, &names);
        }
        svg.finish()
    }
}

impl Panel {
    fn draw(&self, svg: &mut Svg, corner: (f64, f64), along: &str, names: &[&str]) {
        let (left, right) = (corner.0 + LEFT, corner.0 + PANEL.0 - RIGHT);
        let (top, bottom) = (corner.1 + TOP, corner.1 + PANEL.1 - BOTTOM);
        svg.text(corner.0 + 8.0, corner.1 + 16.0, Anchor::Start, "", &shortened(&self.name, 50));
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let across = Scale::over(points().map(|(x, _)| *x), 20.0);
        let up = Scale::over(points().flat_map(|(_, y)| [y.low, y.high]), 40.0).rounded_up();
        let logarithmic = |scale: Scale| if scale.is_log() { " (logarithmic)" } else { "" };
        let hint = format!("{}{}", self.aim.hint(), logarithmic(up));
        svg.text(corner.0 + 8.0, corner.1 + 33.0, Anchor::Start, "dim", &hint);
        let place =
            |x: f64, y: f64| (left + across.share(x) * (right - left), bottom - up.share(y) * (bottom - top));
        for tick in up.ticks() {
            let (_, y) = place(0.0, tick);
            svg.line((left, y), (right, y), "grid");
            svg.text(left - 7.0, y + 4.0, Anchor::End, "dim", &number::short(tick));
        }
        svg.line((left, bottom), (right, bottom), "axis");
        let mut stops: Vec<f64> = points().map(|(x, _)| *x).collect();
        stops.sort_by(f64::total_cmp);
        stops.dedup();
        let mut last = f64::NEG_INFINITY;
        for stop in stops {
            let (x, _) = place(stop, 0.0);
            svg.line((x, bottom), (x, bottom + 4.0), "axis");
            if x - last >= 34.0 {
                svg.text(x, bottom + 18.0, Anchor::Middle, "dim", &number::short(stop));
                last = x;
            }
        }
        let middle = f64::midpoint(left, right);
        svg.text(middle, bottom + 36.0, Anchor::Middle, "dim", &format!("{along}{}", logarithmic(across)));
        for (name, points) in &self.curves {
            let class = class(name, names);
            let line: Vec<(f64, f64)> = points.iter().map(|(x, y)| place(*x, y.median)).collect();
            svg.polyline(&line, class);
            for ((x, spread), (cx, cy)) in points.iter().zip(&line) {
                if spread.high > spread.low {
                    svg.line(place(*x, spread.low), place(*x, spread.high), class);
                }
                svg.dot(*cx, *cy, class);
            }
        }
    }
}

impl Aim {
    fn hint(self) -> &'static str {
        match self {
            Self::More => "more is better",
            Self::Less => "less is better",
        }
    }
}

/// Names in the order in which they come first.
fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The colour of a target, the same wherever it is in the drawing; what is a limit and no server has none of its own.
fn class(name: &str, names: &[&str]) -> &'static str {
    const COLOURS: [&str; 4] = ["s0", "s1", "s2", "s3"];
    if name == crate::echo::NAME {
        return "limit";
    }
    let servers = names.iter().filter(|known| **known != crate::echo::NAME);
    let place = servers.take_while(|known| **known != name).count();
    COLOURS[place % COLOURS.len()]
}

/// Text with at most so many letters: one that would run out of the drawing ends with an ellipsis.
fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// How values become places between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// From zero to this.
    Linear { high: f64 },
    /// Between these powers of ten, when values are so far apart that the small ones would not be seen.
    Log { low: f64, high: f64 },
}

impl Scale {
    /// A scale that just holds all values, logarithmic when the largest is `apart` times the smallest.
    fn over(values: impl Iterator<Item = f64>, apart: f64) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        if low > 0.0 && high / low >= apart {
            return Self::Log { low: low.log10(), high: high.log10() };
        }
        Self::Linear { high: if high > 0.0 { high } else { 1.0 } }
    }

    fn is_log(self) -> bool {
        matches!(self, Self::Log { .. })
    }

    /// So that it ends with a tick.
    fn rounded_up(self) -> Self {
        match self {
            Self::Linear { high } => Self::Linear { high: (high / step(high)).ceil() * step(high) },
            Self::Log { low, high } => Self::Log { low: low.floor(), high: high.ceil() },
        }
    }

    fn share(self, value: f64) -> f64 {
        match self {
            Self::Linear { high } => (value / high).clamp(0.0, 1.0),
            Self::Log { low, high } if value > 0.0 => ((value.log10() - low) / (high - low)).clamp(0.0, 1.0),
            Self::Log { .. } => 0.0,
        }
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { high } => {
                let step = step(high);
                let all = (0..=10).map(|count| f64::from(count) * step);
                all.take_while(|tick| *tick <= high * 1.001).collect()
            }
            Self::Log { low, high } => (-15..=15)
                .filter(|power| (low..=high).contains(&f64::from(*power)))
                .map(|power| 10_f64.powi(power))
                .collect(),
        }
    }
}

/// The distance between ticks: 1, 2 or 5 times a power of ten, of which at most five lie below the end.
fn step(high: f64) -> f64 {
    let rough = high / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough * 0.999).unwrap_or(10.0);
    times * power
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn at(median: f64, low: f64, high: f64) -> Spread {
        Spread { median, low, high }
    }

    /// The marks without the style, which is the same in all.
    fn check(drawing: &str, expected: &expect_test::Expect) {
        let without: Vec<&str> = drawing.lines().filter(|line| !line.starts_with("<style>")).collect();
        expected.assert_eq(&without.join("\n"));
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bars = Bars {
            title: "heartbeat: groups 64".to_owned(),
            figures: vec![BarFigure {
                name: "heartbeats per second".to_owned(),
                aim: Aim::More,
                bars: vec![
                    ("echo".to_owned(), at(160_000.0, 160_000.0, 160_000.0), String::new()),
                    ("kohort".to_owned(), at(150_000.0, 140_000.0, 155_000.0), "×0.94".to_owned()),
                    ("kafka".to_owned(), at(0.0, 0.0, 0.0), "×0.00".to_owned()),
                ],
            }],
        };
        check(
            &bars.draw(),
            &expect![[r#"
            <svg xmlns="http://www.w3.org/2000/svg" class="kb" width="800" height="161" viewBox="0 0 800 161" role="img" aria-label="heartbeat: groups 64">
            <title>heartbeat: groups 64</title>
            <rect width="800" height="161" class="paper"/>
            <text x="16.0" y="26.0" text-anchor="start" class="head">heartbeat: groups 64</text>
            <text x="16.0" y="58.0" text-anchor="start" class="">heartbeats per second</text>
            <text x="784.0" y="58.0" text-anchor="end" class="dim">more is better</text>
            <text x="102.0" y="80.0" text-anchor="end" class="dim">echo</text>
            <rect x="110.0" y="68.0" width="440.0" height="15.0" stroke="none" class="limit"/>
            <text x="558.0" y="80.0" text-anchor="start" class="">160,000</text>
            <text x="102.0" y="101.0" text-anchor="end" class="dim">kohort</text>
            <rect x="110.0" y="89.0" width="412.5" height="15.0" stroke="none" class="s0"/>
            <line x1="495.0" y1="96.5" x2="536.2" y2="96.5" class="range"/>
            <line x1="495.0" y1="93.5" x2="495.0" y2="99.5" class="range"/>
            <line x1="536.2" y1="93.5" x2="536.2" y2="99.5" class="range"/>
            <text x="544.2" y="101.0" text-anchor="start" class="">150,000  ×0.94</text>
            <text x="102.0" y="122.0" text-anchor="end" class="dim">kafka</text>
            <rect x="110.0" y="110.0" width="1.0" height="15.0" stroke="none" class="s1"/>
            <text x="118.0" y="122.0" text-anchor="start" class="">0  ×0.00</text>
            </svg>"#]],
        );
    }

    #[test]
    fn curves_go_through_their_points() {
        let curves = Curves {
            title: "heartbeat".to_owned(),
            along: "members".to_owned(),
            panels: vec![Panel {
                name: "latency p99, ms".to_owned(),
                aim: Aim::Less,
                curves: vec![
                    ("kohort".to_owned(), vec![(1.0, at(0.1, 0.1, 0.2)), (100.0, at(0.2, 0.2, 0.2))]),
                    ("kafka".to_owned(), vec![(1.0, at(1.0, 1.0, 1.0))]),
                ],
            }],
        };
        check(
            &curves.draw(),
            &expect![[r#"
                <svg xmlns="http://www.w3.org/2000/svg" class="kb" width="800" height="346" viewBox="0 0 800 346" role="img" aria-label="heartbeat">
                <title>heartbeat</title>
                <rect width="800" height="346" class="paper"/>
                <text x="16.0" y="26.0" text-anchor="start" class="head">heartbeat</text>
                <line x1="16.0" y1="50.0" x2="36.0" y2="50.0" class="s0"/>
                <circle cx="26.0" cy="50.0" r="3.5" class="s0"/>
                <text x="43.0" y="54.0" text-anchor="start" class="">kohort</text>
                <line x1="111.0" y1="50.0" x2="131.0" y2="50.0" class="s1"/>
                <circle cx="121.0" cy="50.0" r="3.5" class="s1"/>
                <text x="138.0" y="54.0" text-anchor="start" class="">kafka</text>
                <text x="16.0" y="84.0" text-anchor="start" class="">latency p99, ms</text>
                <text x="16.0" y="101.0" text-anchor="start" class="dim">less is better</text>
                <line x1="70.0" y1="300.0" x2="378.0" y2="300.0" class="grid"/>
                <text x="63.0" y="304.0" text-anchor="end" class="dim">0</text>
                <line x1="70.0" y1="263.6" x2="378.0" y2="263.6" class="grid"/>
                <text x="63.0" y="267.6" text-anchor="end" class="dim">0.2</text>
                <line x1="70.0" y1="227.2" x2="378.0" y2="227.2" class="grid"/>
                <text x="63.0" y="231.2" text-anchor="end" class="dim">0.4</text>
                <line x1="70.0" y1="190.8" x2="378.0" y2="190.8" class="grid"/>
                <text x="63.0" y="194.8" text-anchor="end" class="dim">0.6</text>
                <line x1="70.0" y1="154.4" x2="378.0" y2="154.4" class="grid"/>
                <text x="63.0" y="158.4" text-anchor="end" class="dim">0.8</text>
                <line x1="70.0" y1="118.0" x2="378.0" y2="118.0" class="grid"/>
                <text x="63.0" y="122.0" text-anchor="end" class="dim">1</text>
                <line x1="70.0" y1="300.0" x2="378.0" y2="300.0" class="axis"/>
                <line x1="70.0" y1="300.0" x2="70.0" y2="304.0" class="axis"/>
                <text x="70.0" y="318.0" text-anchor="middle" class="dim">1</text>
                <line x1="378.0" y1="300.0" x2="378.0" y2="304.0" class="axis"/>
                <text x="378.0" y="318.0" text-anchor="middle" class="dim">100</text>
                <text x="224.0" y="336.0" text-anchor="middle" class="dim">members (logarithmic)</text>
                <polyline points="70.0,281.8 378.0,263.6" class="s0" style="fill:none"/>
                <line x1="70.0" y1="281.8" x2="70.0" y2="263.6" class="s0"/>
                <circle cx="70.0" cy="281.8" r="3.5" class="s0"/>
                <circle cx="378.0" cy="263.6" r="3.5" class="s0"/>
                <polyline points="70.0,118.0" class="s1" style="fill:none"/>
                <circle cx="70.0" cy="118.0" r="3.5" class="s1"/>
                </svg>"#]],
        );
    }

    #[test]
    fn a_target_keeps_its_colour_where_another_is_missing() {
        let figure = |bars: &[&str]| BarFigure {
            name: "memory".to_owned(),
            aim: Aim::Less,
            bars: bars.iter().map(|name| ((*name).to_owned(), at(1.0, 1.0, 1.0), String::new())).collect(),
        };
        let figures = vec![figure(&["echo", "one", "other"]), figure(&["other"])];
        let drawing = Bars { title: String::new(), figures }.draw();
        assert_eq!(drawing.matches("class=\"s1\"/>").count(), 2, "{drawing}");
        assert_eq!(drawing.matches("class=\"s0\"/>").count(), 1, "{drawing}");
    }

    #[test]
    fn long_text_ends_with_an_ellipsis() {
        assert_eq!(shortened("members", 7), "members");
        assert_eq!(shortened("many members", 6), "many…");
        assert_eq!(shortened("größer", 5), "größ…");
    }

    #[test]
    fn ticks_are_round_and_end_with_the_scale() {
        let ticks = |values: &[f64], apart| Scale::over(values.iter().copied(), apart).rounded_up().ticks();
        assert_eq!(ticks(&[3.0, 97.0], 40.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(&[0.0, 0.0], 40.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(&[1.0, 10.0, 1000.0], 20.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(&[], 20.0).len(), 6);
    }
}
