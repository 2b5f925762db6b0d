//! The style sheet of the page replaces each colour by a variable for the light or the dark theme. Without
//! the sheet, the colours are light.

use plotters::coord::ranged1d::{IntoSegmentedCoord, SegmentValue};
use plotters::prelude::*;
use plotters::style::FontTransform;

/// Fits the column of a phone, and two or three columns side by side.
const WIDTH: u32 = 400;
const HEIGHT: u32 = 250;
const ROW: u32 = 38;

const TEXT: RGBColor = RGBColor(0x3F, 0x3F, 0x46);
const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xE7);
/// The colours also differ in lightness.
const SERIES: [RGBColor; 6] = [
    RGBColor(0x71, 0x71, 0x7A),
    RGBColor(0xC2, 0x41, 0x0C),
    RGBColor(0x1D, 0x4E, 0xD8),
    RGBColor(0x0F, 0x76, 0x6E),
    RGBColor(0x7E, 0x22, 0xCE),
    RGBColor(0xA1, 0x62, 0x07),
];

pub(super) type Point = (f64, f64, f64);

/// By position on the axis or by row.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) place: usize,
    pub(super) points: Vec<Option<Point>>,
}

type Drawn = Result<String, Box<dyn std::error::Error>>;

pub(super) fn lines(labels: &[&str], series: &[Series], shown: &dyn Fn(f64) -> String) -> Drawn {
    let (least, most) = range(series);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let last = i32::try_from(labels.len())? - 1;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(10)
            .margin_right(8)
            .x_label_area_size(24)
            .y_label_area_size(62)
            .build_cartesian_2d((0..last).into_segmented(), (least..most).log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(labels.len())
            .y_labels(6)
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text())
            .x_label_formatter(&|place| match place {
                SegmentValue::CenterOf(place) => at(labels, *place).unwrap_or_default().to_owned(),
                _ => String::new(),
            })
            .y_label_formatter(&|figure| shown(*figure))
            .draw()?;
        for one in series {
            let colour = SERIES[one.place % SERIES.len()];
            let points = || (0..).zip(&one.points).filter_map(|(place, point)| Some((place, (*point)?)));
            let line: Vec<_> =
                points().map(|(place, (median, ..))| (SegmentValue::CenterOf(place), median)).collect();
            chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
            for (place, (median, min, max)) in points() {
                let at = SegmentValue::CenterOf(place);
                chart.draw_series([PathElement::new(
                    vec![(at.clone(), min), (at.clone(), max)],
                    colour.stroke_width(1),
                )])?;
                chart.draw_series([Circle::new((at, median), 4, colour.filled())])?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

pub(super) fn dots(labels: &[&str], series: &[Series], shown: &dyn Fn(f64) -> String) -> Drawn {
    let (least, most) = range(series);
    let mut svg = String::new();
    {
        let height = 40 + ROW * u32::try_from(labels.len())?;
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let lines = i32::try_from(series.len())? + 1;
        let last = i32::try_from(labels.len())? * lines - 1;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(10)
            .margin_right(14)
            .x_label_area_size(24)
            .y_label_area_size(142)
            .build_cartesian_2d((least..most).log_scale(), (0..last).into_segmented())?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .set_tick_mark_size(LabelAreaPosition::Left, 0)
            .x_labels(5)
            .y_labels(usize::try_from(last + 1)?)
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text())
            .x_label_formatter(&|figure| shown(*figure))
            .y_label_formatter(&|place| match place {
                SegmentValue::CenterOf(place) if (last - place) % lines == lines / 2 => {
                    at(labels, (last - place) / lines).unwrap_or_default().to_owned() + "\u{a0}\u{a0}"
                }
                _ => String::new(),
            })
            .draw()?;
        for row in 1..i32::try_from(labels.len())? {
            let between = SegmentValue::Exact(last + 1 - row * lines);
            chart.draw_series([PathElement::new(vec![(least, between.clone()), (most, between)], GRID)])?;
        }
        for (line, one) in (0..).zip(series) {
            let colour = SERIES[one.place % SERIES.len()];
            for (row, point) in (0..).zip(&one.points) {
                let Some((median, min, max)) = *point else { continue };
                let at = SegmentValue::Exact(last + 1 - row * lines - line - 1);
                let ends = vec![(min, at.clone()), (max, at.clone())];
                chart.draw_series([PathElement::new(ends, colour.stroke_width(2))])?;
                chart.draw_series([Circle::new((median, at), 4, colour.filled())])?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}

fn at<'a>(labels: &[&'a str], place: i32) -> Option<&'a str> {
    labels.get(usize::try_from(place).ok()?).copied()
}

fn text() -> TextStyle<'static> {
    ("sans-serif", 13).into_font().transform(FontTransform::None).color(&TEXT)
}

fn range(series: &[Series]) -> (f64, f64) {
    let all = || series.iter().flat_map(|one| one.points.iter().flatten());
    let least = all().map(|(_, min, _)| *min).filter(|min| *min > 0.0).fold(f64::INFINITY, f64::min);
    let most = all().map(|(.., max)| *max).fold(0.0, f64::max);
    match least.is_finite() {
        true => (least / 1.3, most.max(least) * 1.3),
        false => (0.5, 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_labels_and_the_colours_that_the_style_sheet_knows() {
        let series = [
            Series { place: 0, points: vec![Some((10.0, 9.0, 12.0)), None] },
            Series { place: 1, points: vec![Some((100.0, 90.0, 120.0)), Some((50.0, 50.0, 50.0))] },
        ];
        for svg in [
            lines(&["2", "16"], &series, &|figure| format!("{figure} us")).unwrap(),
            dots(&["2", "16"], &series, &|figure| format!("{figure} us")).unwrap(),
        ] {
            assert!(svg.contains("16") && svg.matches("<circle").count() == 3, "{svg}");
            let style = include_str!("page.css");
            for part in svg.split('"').filter(|part| part.starts_with('#')) {
                assert!(style.contains(&format!("\"{part}\"")), "{part} is not in the style sheet");
            }
        }
    }

    #[test]
    fn a_chart_of_nothing_is_empty_and_no_fault() {
        assert!(lines(&["2"], &[], &|figure| figure.to_string()).is_ok());
    }
}
