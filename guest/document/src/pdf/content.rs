//! Runs the operators of a page that place and show text.

use std::collections::HashMap;
use std::rc::Rc;

use lopdf::content::{Content, Operation};
use lopdf::{Dictionary, Document, Object, ObjectId};

use super::font::Font;
use super::layout::{Layout, Shown};
use super::matrix::Matrix;
use crate::DocumentError;

/// Most operators of a document, those of forms each time they are drawn: ten thousand pages have fewer. Forms that draw each
/// other can ask for any number.
const OPERATORS_MAX: u64 = 20_000_000;

/// How deep forms that draw forms are followed. Documents nest a few.
const FORMS_MAX: usize = 16;

/// What operators set, and `q` keeps for `Q`.
#[derive(Clone)]
struct State {
    /// From the coordinates of the content to those of the page.
    page: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    leading: f64,
    character_spacing: f64,
    word_spacing: f64,
    /// Horizontal scaling: 1 is none.
    scaling: f64,
    rise: f64,
}

/// Where text goes.
#[derive(Clone, Copy)]
struct Position {
    text: Matrix,
    line: Matrix,
}

impl Position {
    const START: Self = Self { text: Matrix::IDENTITY, line: Matrix::IDENTITY };

    fn move_line(&mut self, x: f64, y: f64) {
        self.line = Matrix::translation(x, y).then(&self.line);
        self.text = self.line;
    }
}

/// Reads the contents of a document.
pub(super) struct Interpreter<'a> {
    document: &'a Document,
    /// Fonts by their object.
    fonts: HashMap<ObjectId, Rc<Font>>,
    operators_left: u64,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(document: &'a Document) -> Self {
        Self { document, fonts: HashMap::new(), operators_left: OPERATORS_MAX }
    }

    /// Shows the text of a page.
    pub(super) fn run(
        &mut self,
        content: &[u8],
        resources: &Dictionary,
        layout: &mut Layout,
    ) -> Result<(), DocumentError> {
        let state = State {
            page: Matrix::IDENTITY,
            font: None,
            size: 0.0,
            leading: 0.0,
            character_spacing: 0.0,
            word_spacing: 0.0,
            scaling: 1.0,
            rise: 0.0,
        };
        self.run_within(content, resources, state, 0, layout)
    }

    fn run_within(
        &mut self,
        content: &[u8],
        resources: &Dictionary,
        mut state: State,
        depth: usize,
        layout: &mut Layout,
    ) -> Result<(), DocumentError> {
        // What cannot be read to its end is read as far as it can.
        let Ok(content) = Content::decode(content) else { return Ok(()) };
        let mut kept = Vec::new();
        let mut position = Position::START;
        for Operation { operator, operands } in &content.operations {
            self.operators_left = self
                .operators_left
                .checked_sub(1)
                .ok_or(DocumentError::TooLarge { what: "operators", limit: OPERATORS_MAX })?;
            let number =
                |index: usize| operands.get(index).and_then(|operand| operand.as_float().ok()).map_or(0.0, f64::from);
            let string =
                |index: usize| operands.get(index).and_then(|operand| operand.as_str().ok()).unwrap_or_default();
            let name = || operands.first().and_then(|operand| operand.as_name().ok()).unwrap_or_default();
            match operator.as_str() {
                "q" => kept.push(state.clone()),
                "Q" => state = kept.pop().unwrap_or(state),
                "cm" => {
                    if let Some(matrix) = Matrix::from_objects(operands) {
                        state.page = matrix.then(&state.page);
                    }
                }
                "BT" => position = Position::START,
                "Tf" => (state.font, state.size) = (self.font(resources, name()), number(1)),
                "TL" => state.leading = number(0),
                "Tc" => state.character_spacing = number(0),
                "Tw" => state.word_spacing = number(0),
                "Tz" => state.scaling = number(0) / 100.0,
                "Ts" => state.rise = number(0),
                "Td" => position.move_line(number(0), number(1)),
                "TD" => {
                    state.leading = -number(1);
                    position.move_line(number(0), number(1));
                }
                "Tm" => {
                    if let Some(matrix) = Matrix::from_objects(operands) {
                        position = Position { text: matrix, line: matrix };
                    }
                }
                "T*" => position.move_line(0.0, -state.leading),
                "Tj" => show(&state, &mut position, string(0), layout)?,
                "TJ" => show_all(&state, &mut position, operands, layout)?,
                "'" => {
                    position.move_line(0.0, -state.leading);
                    show(&state, &mut position, string(0), layout)?;
                }
                "\"" => {
                    (state.word_spacing, state.character_spacing) = (number(0), number(1));
                    position.move_line(0.0, -state.leading);
                    show(&state, &mut position, string(2), layout)?;
                }
                "Do" if depth < FORMS_MAX => self.draw(resources, name(), &state, depth, layout)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Shows the text of a form.
    fn draw(
        &mut self,
        resources: &Dictionary,
        name: &[u8],
        state: &State,
        depth: usize,
        layout: &mut Layout,
    ) -> Result<(), DocumentError> {
        let document = self.document;
        let object = inner(document, resources, b"XObject").and_then(|objects| objects.get_deref(name, document).ok());
        let Some(form) = object.and_then(|object| object.as_stream().ok()) else { return Ok(()) };
        if form.dict.get(b"Subtype").and_then(Object::as_name).ok() != Some(b"Form") {
            return Ok(());
        }
        let Ok(content) = form.get_plain_content() else { return Ok(()) };
        let matrix = form.dict.get_deref(b"Matrix", document).and_then(Object::as_array).ok();
        let matrix = matrix.and_then(|matrix| Matrix::from_objects(matrix)).unwrap_or(Matrix::IDENTITY);
        let state = State { page: matrix.then(&state.page), ..state.clone() };
        let own = inner(document, &form.dict, b"Resources").unwrap_or(resources);
        self.run_within(&content, own, state, depth + 1, layout)
    }

    fn font(&mut self, resources: &Dictionary, name: &[u8]) -> Option<Rc<Font>> {
        let document = self.document;
        let font = inner(document, resources, b"Font")?.get(name).ok()?;
        let (id, object) = document.dereference(font).ok()?;
        if let Some(known) = id.and_then(|id| self.fonts.get(&id)) {
            return Some(Rc::clone(known));
        }
        let made = Rc::new(Font::new(document, object.as_dict().ok()?));
        if let Some(id) = id {
            self.fonts.insert(id, Rc::clone(&made));
        }
        Some(made)
    }
}

/// A dictionary inside of another.
fn inner<'a>(document: &'a Document, outer: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    outer.get_deref(key, document).and_then(Object::as_dict).ok()
}

/// Shows strings with gaps between them: the operand is an array of both.
fn show_all(
    state: &State,
    position: &mut Position,
    operands: &[Object],
    layout: &mut Layout,
) -> Result<(), DocumentError> {
    let elements = operands.first().and_then(|operand| operand.as_array().ok()).map(Vec::as_slice).unwrap_or_default();
    for element in elements {
        match element {
            Object::String(string, _) => show(state, position, string, layout)?,
            gap => {
                let gap = gap.as_float().map_or(0.0, f64::from);
                let along = -gap / 1000.0 * state.size * state.scaling;
                position.text = Matrix::translation(along, 0.0).then(&position.text);
            }
        }
    }
    Ok(())
}

/// Shows one string.
fn show(state: &State, position: &mut Position, string: &[u8], layout: &mut Layout) -> Result<(), DocumentError> {
    let Some(font) = &state.font else { return Ok(()) };
    let (mut text, mut width) = (String::new(), 0.0);
    for glyph in font.glyphs(string) {
        text.push_str(&glyph.text);
        let spacing = state.character_spacing + if glyph.is_space { state.word_spacing } else { 0.0 };
        width += (glyph.width * state.size + spacing) * state.scaling;
    }
    let map = position.text.then(&state.page);
    position.text = Matrix::translation(width, 0.0).then(&position.text);
    layout.show(Shown {
        text,
        start: map.apply(0.0, state.rise),
        end: map.apply(width, state.rise),
        direction: map.direction(),
        height: map.height() * state.size.abs(),
    })
}
