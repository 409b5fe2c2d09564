//! What the functions of a component answer where their module would trap, read from the component's type.

use wit_parser::abi::AbiVariant;
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{
    Function, Handle, Resolve, SizeAlign, Type, TypeDefKind, TypeId, TypeOwner, Variant, WorldItem, WorldKey,
};

use crate::{Ending, Endings, MeterError};

/// How an exported function answers an error: its parameters and its result are in memory.
pub(crate) struct Answer {
    /// The name of the export of the core module.
    pub(crate) export: String,
    /// The import, module and name, that drops the one handle that the function borrows.
    pub(crate) drop: (String, String),
    /// Where the handle is among the parameters.
    pub(crate) handle_at: u32,
    /// The alignment of the result.
    pub(crate) align: u32,
    pub(crate) exhausted: Failed,
    pub(crate) unreachable: Failed,
}

/// A result that is an error with a text.
pub(crate) struct Failed {
    pub(crate) result: Vec<u8>,
    /// Where address and length of the text belong in the result.
    pub(crate) text_at: u32,
    pub(crate) text: Vec<u8>,
}

/// The answers of the functions in exported interfaces that have such errors.
pub(crate) fn answers(component: &[u8], endings: &Endings<'_>) -> Result<Vec<Answer>, MeterError> {
    let Ok(DecodedWasm::Component(resolve, world)) = decode(component) else {
        return Err(MeterError::Answer("its type cannot be read".to_owned()));
    };
    let mut layout = SizeAlign::default();
    layout.fill(&resolve);
    let reader = Reader { resolve: &resolve, layout, endings };
    let mut answers = Vec::new();
    for (key, item) in resolve.worlds.get(world).map(|world| &world.exports).into_iter().flatten() {
        if let (WorldKey::Interface(_), WorldItem::Interface { id, .. }) = (key, item) {
            let name = resolve.id_of(*id).unwrap_or_default();
            for function in resolve.interfaces.get(*id).into_iter().flat_map(|interface| interface.functions.values()) {
                let export = format!("{name}#{}", function.name);
                answers.extend(reader.answer(export, function));
            }
        }
    }
    if answers.is_empty() {
        return Err(MeterError::Answer("no function of it has such errors".to_owned()));
    }
    Ok(answers)
}

struct Reader<'a> {
    resolve: &'a Resolve,
    layout: SizeAlign,
    endings: &'a Endings<'a>,
}

impl Reader<'_> {
    /// `None` for a function of another form.
    fn answer(&self, export: String, function: &Function) -> Option<Answer> {
        let signature = self.resolve.wasm_signature(AbiVariant::GuestExport, function);
        if !signature.indirect_params || !signature.retptr {
            return None;
        }
        let fields = self.layout.field_offsets(function.params.iter().map(|parameter| &parameter.ty));
        let mut handles = fields.into_iter().filter_map(|(at, kind)| Some((at, self.borrowed(kind)?)));
        let ((at, resource), None) = (handles.next()?, handles.next()) else { return None };
        let result = function.result.as_ref()?;
        Some(Answer {
            export,
            drop: self.drop(resource)?,
            handle_at: u32::try_from(at.size_wasm32()).ok()?,
            align: u32::try_from(self.layout.align(result).align_wasm32()).ok()?,
            exhausted: self.failed(result, &self.endings.exhausted)?,
            unreachable: self.failed(result, &self.endings.unreachable)?,
        })
    }

    /// The resource, if this is a handle that borrows one.
    fn borrowed(&self, kind: &Type) -> Option<TypeId> {
        match self.kind(kind)? {
            TypeDefKind::Handle(Handle::Borrow(resource)) => Some(*resource),
            _ => None,
        }
    }

    /// What a type is, by whatever names.
    fn kind(&self, kind: &Type) -> Option<&TypeDefKind> {
        let Type::Id(id) = kind else { return None };
        match &self.resolve.types.get(*id)?.kind {
            TypeDefKind::Type(named) => self.kind(named),
            kind => Some(kind),
        }
    }

    fn drop(&self, resource: TypeId) -> Option<(String, String)> {
        let resource = self.resolve.types.get(resource)?;
        if let TypeDefKind::Type(Type::Id(named)) = resource.kind {
            return self.drop(named);
        }
        let TypeOwner::Interface(interface) = resource.owner else { return None };
        Some((self.resolve.id_of(interface)?, format!("[resource-drop]{}", resource.name.as_ref()?)))
    }

    /// The error that is this case of a variant, with a string.
    fn failed(&self, kind: &Type, ending: &Ending<'_>) -> Option<Failed> {
        let TypeDefKind::Result(of) = self.kind(kind)? else { return None };
        let error = of.err.as_ref()?;
        let TypeDefKind::Variant(variant) = self.kind(error)? else { return None };
        let number =
            variant.cases.iter().position(|found| found.name == ending.case && found.ty == Some(Type::String))?;
        let error_at = self.layout.payload_offset(wit_parser::Int::U8, [of.ok.as_ref(), Some(error)]).size_wasm32();
        let text_at = error_at + self.payload_at(variant);
        let mut result = vec![0; self.layout.size(kind).size_wasm32()];
        *result.first_mut()? = 1;
        *result.get_mut(error_at)? = u8::try_from(number).ok()?;
        Some(Failed { result, text_at: u32::try_from(text_at).ok()?, text: ending.text.as_bytes().to_vec() })
    }

    fn payload_at(&self, variant: &Variant) -> usize {
        self.layout.payload_offset(variant.tag(), variant.cases.iter().map(|case| case.ty.as_ref())).size_wasm32()
    }
}
