//! The text of a PowerPoint presentation as Markdown: a heading `# Slide N` for each slide in their order, its title and texts, and
//! its notes.

use std::collections::{BTreeMap, BTreeSet};

use super::archive::Archive;
use super::markdown::Markdown;
use super::xml::{self, Xml, attribute};
use super::{DocumentError, office};

/// The member that lists the slides.
pub(crate) const PRESENTATION: &str = "ppt/presentation.xml";

/// What the type of a relation ends with.
const SLIDE: &str = "/slide";
const NOTES: &str = "/notesSlide";

/// What a member refers to.
struct Relation {
    id: String,
    /// A URI whose last part is a name, such as `/slide`.
    kind: String,
    /// The member.
    target: String,
}

pub(crate) fn text(archive: &mut Archive<'_>, limit: usize) -> Result<String, DocumentError> {
    let mut markdown = Markdown::new(limit);
    // A member that is listed twice is read once.
    let mut seen = BTreeSet::new();
    for (slide, number) in slides(archive)?.into_iter().zip(1..) {
        if !seen.insert(slide.clone()) {
            continue;
        }
        markdown.heading(1, &format!("Slide {number}"))?;
        office::read(archive.member(&slide)?, &mut markdown)?;
        for notes in relations(archive, &slide)?.into_iter().filter(|relation| relation.kind.ends_with(NOTES)) {
            if seen.insert(notes.target.clone()) {
                markdown.announce(2, "Notes");
                office::read(archive.member(&notes.target)?, &mut markdown)?;
            }
        }
    }
    markdown.finish()
}

/// The members of the slides, in their order.
fn slides(archive: &mut Archive<'_>) -> Result<Vec<String>, DocumentError> {
    let mut ids = Vec::new();
    xml::each(archive.member(PRESENTATION)?, |step| {
        if let Xml::Start(element) = step
            && element.local_name().as_ref() == "sldId"
        {
            // Beside the attribute `id` of the slide stands that of its relation, with a prefix.
            let relation = element.attributes().flatten().find(|attribute| attribute.key.as_ref().ends_with(":id"));
            ids.extend(relation.map(|attribute| attribute.value.into_owned()));
        }
        Ok(())
    })?;
    let relations = relations(archive, PRESENTATION)?.into_iter().filter(|relation| relation.kind.ends_with(SLIDE));
    let slides: BTreeMap<String, String> = relations.map(|relation| (relation.id, relation.target)).collect();
    Ok(ids.iter().filter_map(|id| slides.get(id).cloned()).collect())
}

/// What a member refers to; nothing if it does not say.
fn relations(archive: &mut Archive<'_>, member: &str) -> Result<Vec<Relation>, DocumentError> {
    let (directory, name) = member.rsplit_once('/').unwrap_or(("", member));
    let listing = format!("{directory}/_rels/{name}.rels");
    let mut relations = Vec::new();
    if !archive.has(&listing) {
        return Ok(relations);
    }
    xml::each(archive.member(&listing)?, |step| {
        if let Xml::Start(element) = step
            && element.local_name().as_ref() == "Relationship"
        {
            let value = |name| attribute(element, name).unwrap_or_default();
            relations.push(Relation {
                id: value("Id"),
                kind: value("Type"),
                target: resolved(directory, &value("Target")),
            });
        }
        Ok(())
    })?;
    Ok(relations)
}

/// The member that a target in a directory names.
fn resolved(directory: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut steps: Vec<&str> = directory.split('/').collect();
    for step in target.split('/') {
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}
