//! The report for a reader at a terminal: failures first, each with its evidence and what to do.
//!
//! The text has colours in it; who prints it strips them where they are not wanted. Everything a
//! server wrote passes through [`visible`], so that it cannot drive the terminal.

use std::collections::HashMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::text::{chunks, columns, count, shell, shorten, visible, wrap};
use super::{Context, Counts, SUITE, area, roots, server_name};
use crate::verdict::{Evidence, From, Judgement, Line, Report, Target, Verdict};

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default().bold();
const MAGENTA: Style = AnsiColor::Magenta.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// Lines of an exchange that are shown without `-v`: the first few and the last.
const EXCHANGE: (usize, usize) = (6, 14);
/// Ids that are named in a row without `-v`.
const IDS: usize = 12;
/// Lines of stderr that are shown.
const STDERR: usize = 10;

/// How it is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Columns of the terminal.
    pub width: usize,
    /// Also notes, what is blocked or not applicable and why, and whole exchanges.
    pub verbose: bool,
}

/// The whole report as text, colours included.
pub fn render(report: &Report, context: &Context<'_>, layout: Layout) -> String {
    let mut page = Page {
        out: String::new(),
        report,
        context,
        layout: Layout {
            width: layout.width.max(40),
            ..layout
        },
    };
    page.header();
    page.fatal();
    let told = page.breaches();
    page.blocked(&told);
    page.errors();
    if layout.verbose {
        page.notes();
        page.not_applicable();
    }
    page.hints();
    page.table();
    page.totals();
    page.out
}

/// One thing to tell: judgements that agree, told once.
struct Entry<'a> {
    /// The one whose evidence is shown.
    first: &'a Judgement,
    /// The revisions in which it happens; empty for what holds before one is chosen.
    revisions: Vec<&'a str>,
}

struct Page<'a> {
    out: String,
    report: &'a Report,
    context: &'a Context<'a>,
    layout: Layout,
}

impl<'a> Page<'a> {
    fn header(&mut self) {
        let target = &self.report.target;
        let (name, version) = SUITE;
        self.line(0, BOLD, &format!("{name} {version}"));
        let server = match server_name(self.report) {
            (Some(name), Some(version)) => format!("{} {}", visible(name), visible(version)),
            (Some(name), None) => format!("{}, no version given", visible(name)),
            _ => "gave no name".into(),
        };
        self.labelled("server", &shorten(&server, self.layout.width * 2));
        let command = shell(&target.command, usize::MAX).join(" ");
        self.labelled("command", &shorten(&command, self.layout.width * 3));
        self.labelled("transport", "stdio");
        let revisions = match target.revisions.as_slice() {
            [] => "none".into(),
            known => visible(&known.join(", ")),
        };
        self.labelled("revisions", &revisions);
        if !target.unknown_revisions.is_empty() {
            let names = visible(&target.unknown_revisions.join(", "));
            let names = shorten(&names, self.layout.width);
            self.labelled("", &format!("unknown to this suite: {names}"));
        }
        if !target.profiles.is_empty() {
            self.labelled("profiles", &target.profiles.join(", "));
        }
        if let Some(seed) = target.seed {
            self.labelled("seed", &seed.to_string());
        }
        for remark in &target.remarks {
            self.labelled("remark", remark);
        }
    }

    fn fatal(&mut self) {
        if let Some(fatal) = &self.report.fatal {
            self.heading("The run could not go on");
            self.prose(2, RED, &fatal.message);
            self.evidence(&fatal.evidence);
        }
    }

    /// Failures, then warnings. Returns what was told, for what they block.
    fn breaches(&mut self) -> Vec<Entry<'a>> {
        let roots = roots(&self.report.judgements);
        let mut told: Vec<Entry<'a>> = Vec::new();
        let kinds = [
            (Verdict::Fail, "Failures", RED),
            (Verdict::Warn, "Warnings", YELLOW),
        ];
        for (verdict, title, style) in kinds {
            let entries = self.entries(verdict);
            if !entries.is_empty() {
                self.heading(&format!("{title} ({})", entries.len()));
            }
            for entry in entries {
                let blocks = self.blocked_by(&entry, &told, &roots);
                self.entry(&entry, style, &blocks);
                told.push(entry);
            }
        }
        told
    }

    /// Judgements of a kind, those that agree in requirement and message as one.
    fn entries(&self, verdict: Verdict) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for j in self
            .report
            .judgements
            .iter()
            .filter(|j| j.verdict == verdict)
        {
            let at = *known
                .entry((&j.requirement, &j.message))
                .or_insert_with(|| {
                    entries.push(Entry {
                        first: j,
                        revisions: Vec::new(),
                    });
                    entries.len() - 1
                });
            if let Some(revision) = j.revision.as_deref()
                && !entries[at].revisions.contains(&revision)
            {
                entries[at].revisions.push(revision);
            }
        }
        entries
    }

    /// The ids that this entry blocks, unless one told before it is the same root.
    fn blocked_by(
        &self,
        entry: &Entry<'a>,
        told: &[Entry<'a>],
        roots: &HashMap<usize, &str>,
    ) -> Vec<&'a str> {
        let mut ids = Vec::new();
        for (at, j) in self.report.judgements.iter().enumerate() {
            if roots.get(&at) == Some(&entry.first.requirement.as_str())
                && entry.is_in(j)
                && !told.iter().any(|t| t.is_root_of(j, roots.get(&at)))
            {
                ids.push(j.requirement.as_str());
            }
        }
        ids
    }

    fn entry(&mut self, entry: &Entry<'a>, style: Style, blocks: &[&str]) {
        let j = entry.first;
        self.title(entry, style);
        let rule = (self.context.rules)(&j.requirement);
        if let Some(rule) = rule {
            self.prose(2, PLAIN, &rule.statement);
        }
        if !j.message.is_empty() {
            self.blank();
            self.prose(
                2,
                BOLD,
                &shorten(&visible(&j.message), self.layout.width * 6),
            );
        }
        self.evidence(&j.evidence);
        self.blank();
        if j.verdict != Verdict::Error
            && let Some(rule) = rule
        {
            self.labelled("mend", &rule.mend);
        }
        if !blocks.is_empty() {
            let number = count(blocks.len(), "other verdict", "other verdicts");
            let names = match self.layout.verbose {
                true => format!(": {}", unique(blocks).join(", ")),
                false => String::new(),
            };
            self.labelled("blocks", &format!("{number}{names}"));
        }
        self.command(
            "again",
            &self.context.again.words(j, &self.report.target.command),
        );
        if rule.is_some() {
            self.command(
                "more",
                &[SUITE.0, "explain", &j.requirement].map(String::from),
            );
        }
    }

    /// The kind, the rule, its level, and where it happens.
    fn title(&mut self, entry: &Entry<'_>, style: Style) {
        let j = entry.first;
        let kind = j.verdict.as_str().to_uppercase();
        let level = visible(&j.level);
        let id = shorten(&visible(&j.requirement), self.layout.width * 2);
        self.blank();
        if columns(&kind) + columns(&id) + columns(&level) + 2 <= self.layout.width {
            let title = format!("{style}{kind}{style:#} {BOLD}{id}{BOLD:#} {level}");
            self.line(0, PLAIN, &title);
        } else {
            self.line(0, PLAIN, &format!("{style}{kind}{style:#} {level}"));
            for piece in chunks(&id, self.layout.width - 2) {
                self.line(2, BOLD, piece);
            }
        }
        let mut places = entry.revisions.join(", ");
        if j.check != j.requirement {
            let by = if places.is_empty() { "by" } else { ", by" };
            let _ = write!(places, "{by} {}", visible(&j.check));
        }
        self.prose(2, DIM, &places);
    }

    fn evidence(&mut self, evidence: &Evidence) {
        let facts = [
            ("at", &evidence.pointer),
            ("expected", &evidence.expected),
            ("found", &evidence.found),
        ];
        for (label, fact) in facts {
            if let Some(fact) = fact {
                let shown = match (label, fact.is_empty()) {
                    ("at", true) => "the whole value".into(),
                    _ => shorten(&visible(fact), self.layout.width * 3),
                };
                self.labelled(label, &shown);
            }
        }
        if !evidence.exchange.is_empty() {
            self.blank();
            self.exchange(&evidence.exchange);
        }
        if !evidence.stderr.is_empty() {
            self.blank();
            self.stderr(&evidence.stderr);
        }
    }

    fn exchange(&mut self, lines: &[Line]) {
        let (first, last) = match self.layout.verbose {
            true => (lines.len(), 0),
            false => EXCHANGE,
        };
        for (at, line) in lines.iter().enumerate() {
            if at < first || at + last >= lines.len() {
                self.exchange_line(line);
            } else if at == first {
                let left_out = count(lines.len() - first - last, "line", "lines");
                self.line(2, DIM, &format!("… {left_out} left out; -v shows them …"));
            }
        }
    }

    fn exchange_line(&mut self, line: &Line) {
        let (arrow, style) = match line.from {
            From::Client => ("-->", CYAN),
            From::Server => ("<--", MAGENTA),
            From::Event => ("***", DIM),
        };
        let time = format!("{}.{:03}s", line.at_ms / 1000, line.at_ms % 1000);
        let lead = format!("  {arrow} {time:>7} ");
        let room = self.layout.width.saturating_sub(lead.len()).max(16);
        let rows = if self.layout.verbose { 40 } else { 4 };
        // An empty line of a server is evidence too.
        let text = match line.text.is_empty() {
            true => "(an empty line)".into(),
            false => shorten(&visible(&line.text), room * rows),
        };
        for (row, piece) in chunks(&text, room).into_iter().enumerate() {
            if row == 0 {
                let _ = writeln!(
                    self.out,
                    "  {style}{arrow}{style:#} {DIM}{time:>7}{DIM:#} {piece}"
                );
            } else {
                let _ = writeln!(self.out, "{}{piece}", " ".repeat(lead.len()));
            }
        }
    }

    fn stderr(&mut self, lines: &[String]) {
        let skipped = lines.len().saturating_sub(STDERR);
        let which = if skipped > 0 { ", the last lines" } else { "" };
        self.line(2, DIM, &format!("stderr{which}"));
        for line in &lines[skipped..] {
            let room = self.layout.width.saturating_sub(4);
            for piece in chunks(&shorten(&visible(line), room * 2), room) {
                let _ = writeln!(self.out, "  {DIM}|{DIM:#} {piece}");
            }
        }
    }

    /// What is blocked by something that was not told above.
    fn blocked(&mut self, told: &[Entry<'a>]) {
        let roots = roots(&self.report.judgements);
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for (at, j) in self.report.judgements.iter().enumerate() {
            let root = roots.get(&at);
            if j.verdict != Verdict::Blocked || told.iter().any(|t| t.is_root_of(j, root)) {
                continue;
            }
            let cause = match root {
                Some(root) => format!("by {}: {}", visible(root), j.message),
                None => j.message.clone(),
            };
            push_group(&mut groups, cause, &j.requirement);
        }
        self.groups("Blocked", &groups);
    }

    /// What the suite could not judge: what has evidence each by itself, the rest by its reason.
    fn errors(&mut self) {
        let entries = self.entries(Verdict::Error);
        if entries.is_empty() {
            return;
        }
        self.heading(&format!("The suite could not judge ({})", entries.len()));
        let mut groups = Vec::new();
        for entry in entries {
            if entry.first.evidence.is_empty() {
                push_group(
                    &mut groups,
                    entry.first.message.clone(),
                    &entry.first.requirement,
                );
            } else {
                self.entry(&entry, MAGENTA, &[]);
            }
        }
        self.reasons(&groups);
    }

    fn notes(&mut self) {
        let mut groups = Vec::new();
        for j in &self.report.judgements {
            for note in &j.notes {
                push_group(&mut groups, note.clone(), &j.requirement);
            }
        }
        self.groups("Notes", &groups);
    }

    fn not_applicable(&mut self) {
        let mut groups = Vec::new();
        for j in &self.report.judgements {
            if j.verdict == Verdict::NotApplicable {
                push_group(&mut groups, j.message.clone(), &j.requirement);
            }
        }
        self.groups("Not applicable", &groups);
    }

    /// A section of reasons, each with the ids that it holds for.
    fn groups(&mut self, title: &str, groups: &[(String, Vec<&str>)]) {
        if groups.is_empty() {
            return;
        }
        let total: usize = groups.iter().map(|(_, ids)| ids.len()).sum();
        self.heading(&format!("{title} ({total})"));
        self.reasons(groups);
    }

    /// Reasons, each with the ids that it holds for.
    fn reasons(&mut self, groups: &[(String, Vec<&str>)]) {
        for (reason, ids) in groups {
            self.blank();
            let reason = if reason.is_empty() {
                "no reason given"
            } else {
                reason
            };
            self.prose(2, PLAIN, &shorten(&visible(reason), self.layout.width * 6));
            let mut names = unique(ids);
            let more = names.len().saturating_sub(IDS);
            if more > 1 && !self.layout.verbose {
                names.truncate(IDS);
                names.push(format!("and {more} more; -v names them"));
            }
            self.prose(4, DIM, &names.join(", "));
        }
    }

    /// What the user could do to have more judged.
    fn hints(&mut self) {
        let target: &Target = &self.report.target;
        let room = self.layout.width * 2;
        let mut hints = Vec::new();
        for profile in &target.looks_like {
            hints.push(format!(
                "This looks like a {0} server. `--profile {0}` judges it as one; that calls tools which may run code or write.",
                visible(profile)
            ));
        }
        if !target.uncalled_tools.is_empty() {
            let names = shorten(&visible(&target.uncalled_tools.join(", ")), room);
            hints.push(format!(
                "{} not called, since nothing marks them read-only: {names}. `--call NAME` or `--call-all` allows it.",
                match target.uncalled_tools.len() {
                    1 => "1 tool was".into(),
                    n => format!("{n} tools were"),
                }
            ));
        }
        if !hints.is_empty() {
            self.blank();
        }
        for hint in hints {
            self.prose(0, PLAIN, &hint);
        }
    }

    fn table(&mut self) {
        let mut areas: Vec<(&str, Counts)> = Vec::new();
        for j in &self.report.judgements {
            let name = area(&j.requirement);
            match areas.iter_mut().find(|(known, _)| *known == name) {
                Some((_, counts)) => counts.add(j.verdict),
                None => {
                    areas.push((name, Counts::of([j])));
                }
            }
        }
        if areas.is_empty() {
            return;
        }
        let gap = if self.layout.width >= 60 { 2 } else { 1 };
        let numbers: usize = Verdict::ALL.iter().map(|v| v.as_str().len() + gap).sum();
        let names: Vec<String> = areas.iter().map(|(name, _)| visible(name)).collect();
        let widest = names.iter().map(|n| columns(n)).max().unwrap_or(0).max(4);
        let room = self.layout.width.saturating_sub(numbers);
        if room < 12 {
            return self.table_as_prose(&areas);
        }
        let widest = widest.min(room);
        self.blank();
        let head: String = Verdict::ALL
            .iter()
            .map(|v| format!("{:>1$}", v.as_str(), v.as_str().len() + gap))
            .collect();
        self.line(0, BOLD, &format!("{}{head}", pad("area", widest)));
        for ((_, counts), name) in areas.iter().zip(&names) {
            self.table_row(name, widest, gap, counts);
        }
    }

    /// The table where it is too wide for the terminal.
    fn table_as_prose(&mut self, areas: &[(&str, Counts)]) {
        self.blank();
        for (name, counts) in areas {
            let numbers: Vec<String> = Verdict::ALL
                .iter()
                .filter(|v| counts.get(**v) > 0)
                .map(|v| format!("{} {v}", counts.get(*v)))
                .collect();
            self.prose(0, PLAIN, &format!("{name}: {}", numbers.join(", ")));
        }
    }

    fn table_row(&mut self, name: &str, widest: usize, gap: usize, counts: &Counts) {
        self.out.push_str(&pad(name, widest));
        for verdict in Verdict::ALL {
            let number = counts.get(verdict);
            let (cell, style) = match number {
                0 => ("-".to_owned(), DIM),
                n => (n.to_string(), colour(verdict)),
            };
            let room = verdict.as_str().len() + gap;
            let _ = write!(self.out, "{style}{cell:>room$}{style:#}");
        }
        self.out.push('\n');
    }

    fn totals(&mut self) {
        let counts = Counts::of(&self.report.judgements);
        let mut parts = Vec::new();
        for verdict in [
            Verdict::Fail,
            Verdict::Warn,
            Verdict::Error,
            Verdict::Blocked,
            Verdict::Pass,
            Verdict::NotApplicable,
        ] {
            let number = counts.get(verdict);
            if number > 0 || matches!(verdict, Verdict::Fail | Verdict::Pass) {
                parts.push(format!("{number} {verdict}"));
            }
        }
        let verdicts = match counts.total() {
            0 => "nothing was judged".into(),
            _ => parts.join(", "),
        };
        let text = format!(
            "{verdicts}; {}, {:.2} s, {}",
            count(self.report.target.revisions.len(), "revision", "revisions"),
            self.report.seconds,
            count(self.report.processes, "process", "processes")
        );
        let style = match super::exit_code(self.report, self.context.strict) {
            0 => GREEN,
            1 | 3 => RED,
            _ => MAGENTA,
        };
        self.blank();
        self.prose(0, style, &text);
    }

    // Pieces of layout.

    fn blank(&mut self) {
        if !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn heading(&mut self, text: &str) {
        self.blank();
        self.line(0, BOLD, text);
        self.line(0, DIM, &"─".repeat(columns(text)));
    }

    /// One line, not wrapped.
    fn line(&mut self, indent: usize, style: Style, text: &str) {
        let _ = writeln!(self.out, "{}{style}{text}{style:#}", " ".repeat(indent));
    }

    /// Prose, wrapped, made visible.
    fn prose(&mut self, indent: usize, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        for line in wrap(text, self.layout.width - indent) {
            self.line(indent, style, &line);
        }
    }

    fn labelled(&mut self, label: &str, text: &str) {
        field(&mut self.out, label, text, self.layout.width);
    }

    /// A label and a command that can be copied.
    fn command(&mut self, label: &str, words: &[String]) {
        for (at, line) in shell(words, self.layout.width - 12).iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            let _ = writeln!(self.out, "  {DIM}{label:<9}{DIM:#} {line}");
        }
    }
}

impl Entry<'_> {
    /// Whether the judgement is of a revision in which this happens.
    fn is_in(&self, j: &Judgement) -> bool {
        match j.revision.as_deref() {
            Some(revision) if !self.revisions.is_empty() => self.revisions.contains(&revision),
            _ => true,
        }
    }

    fn is_root_of(&self, j: &Judgement, root: Option<&&str>) -> bool {
        root == Some(&self.first.requirement.as_str()) && self.is_in(j)
    }
}

/// A label and prose beside it, wrapped, made visible.
pub(crate) fn field(out: &mut String, label: &str, text: &str, width: usize) {
    const LABEL: usize = 12;
    for (at, line) in wrap(text, width - LABEL).iter().enumerate() {
        let label = if at == 0 { label } else { "" };
        let _ = writeln!(out, "  {DIM}{label:<9}{DIM:#} {line}");
    }
}

fn colour(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Pass => GREEN,
        Verdict::Fail => RED,
        Verdict::Warn => YELLOW,
        Verdict::Error => MAGENTA,
        Verdict::NotApplicable | Verdict::Blocked => PLAIN,
    }
}

/// The text in exactly that many columns.
fn pad(text: &str, width: usize) -> String {
    let piece = chunks(text, width)[0];
    format!(
        "{piece}{}",
        " ".repeat(width.saturating_sub(columns(piece)))
    )
}

fn push_group<'a>(groups: &mut Vec<(String, Vec<&'a str>)>, reason: String, id: &'a str) {
    match groups.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, ids)) => ids.push(id),
        None => groups.push((reason, vec![id])),
    }
}

/// The ids without repetition (one id stands once a revision), made visible.
fn unique(ids: &[&str]) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    for id in ids {
        if !seen.contains(id) {
            seen.push(id);
        }
    }
    seen.into_iter().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::*;
    use super::*;

    fn plain(report: &Report, width: usize, verbose: bool) -> String {
        let text = with_context(|context| render(report, context, Layout { width, verbose }));
        anstream::adapter::strip_str(&text).to_string()
    }

    fn snapshot(name: &str, report: &Report, verbose: bool) {
        for width in [80, 50] {
            let text = plain(report, width, verbose);
            insta::assert_snapshot!(format!("{name}-{width}"), text);
        }
    }

    #[test]
    fn shows_every_verdict() {
        snapshot("every_verdict", &every_verdict(), false);
    }

    #[test]
    fn shows_more_when_asked() {
        snapshot("every_verdict_verbose", &every_verdict(), true);
    }

    #[test]
    fn shows_a_hostile_server() {
        snapshot("hostile_server", &hostile(), false);
    }

    #[test]
    fn server_that_could_not_be_started() {
        snapshot("not_started", &not_started(), false);
    }

    #[test]
    fn all_is_well() {
        let judgements = vec![judgement(VERSION, Some("2025-06-18"), Verdict::Pass)];
        snapshot("all_is_well", &report(judgements), false);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 50, 80, 133] {
            for report in [every_verdict(), hostile(), not_started()] {
                for line in plain(&report, width, true).lines() {
                    // A word of a command is never cut: it must stay copyable.
                    let is_command = line.contains("touchstone ") || line.ends_with('\\');
                    let is_one_word = line.split_whitespace().count() <= 2;
                    assert!(
                        columns(line) <= width || is_command || is_one_word,
                        "{width}: {line:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_a_server_wrote_cannot_drive_the_terminal() {
        let text = plain(&hostile(), 80, true);
        let bad: Vec<char> = text
            .chars()
            .filter(|c| *c != '\n' && visible(&c.to_string()) != c.to_string())
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
    }

    #[test]
    fn a_root_cause_is_told_once() {
        let text = plain(&every_verdict(), 80, false);
        assert_eq!(text.matches("FAIL lifecycle.initialize").count(), 1);
        assert!(text.contains("blocks    2 other verdicts"), "{text}");
    }
}
