//! Conversions between the plain types of this crate and the types that bindings of `wit/` generate.
//!
//! For each user of the contract, Rust types are generated for its side of the sandbox, with the same names. So the
//! conversions are a macro, expanded where the generated types are.

/// Implements both directions of a conversion between two enums.
#[doc(hidden)]
#[macro_export]
macro_rules! convert_enum {
    ($plain:ty, $contract:ty, $($here:ident = $there:ident),+) => {
        impl From<$plain> for $contract {
            fn from(value: $plain) -> Self {
                match value { $(<$plain>::$here => Self::$there),+ }
            }
        }
        impl From<$contract> for $plain {
            fn from(value: $contract) -> Self {
                match value { $(<$contract>::$there => Self::$here),+ }
            }
        }
    };
}

/// Implements both directions of a conversion between two structs.
#[doc(hidden)]
#[macro_export]
macro_rules! convert_struct {
    ($plain:ty, $contract:ty, |$value:ident| { $($field:ident: $convert:expr),+ }) => {
        impl From<&$plain> for $contract {
            fn from($value: &$plain) -> Self {
                Self { $($field: $convert),+ }
            }
        }
        impl From<&$contract> for $plain {
            fn from($value: &$contract) -> Self {
                Self { $($field: $convert),+ }
            }
        }
    };
}

/// Implements the conversions of queries, in both directions, for the generated types of the module `$types`, those of the
/// interface `types` in its newest version.
#[macro_export]
macro_rules! query_conversions {
    ($types:path) => {
        use serde_json::value::RawValue;
        use $crate::query::{Aggregate, AggregateKind, Condition, Group, Operator, Query, Selection, SortKey, Test};
        use $types as types;

        /// Appends a condition as steps of the contract. Returns the index of the last step.
        fn add_steps(condition: &Condition, steps: &mut Vec<types::Condition>) -> u32 {
            let mut all = |conditions: &[Condition]| conditions.iter().map(|one| add_steps(one, steps)).collect::<Vec<_>>();
            let step = match condition {
                Condition::Test(test) => types::Condition::Test(test.into()),
                Condition::All(conditions) => types::Condition::All(all(conditions)),
                Condition::Any(conditions) => types::Condition::Any(all(conditions)),
                Condition::Not(condition) => types::Condition::Negation(add_steps(condition, steps)),
            };
            steps.push(step);
            u32::try_from(steps.len() - 1).unwrap_or(u32::MAX)
        }

        /// Builds the condition of the last step. Returns `None` if a step refers to a later step, is used twice, or if there
        /// are too many steps.
        fn of_steps(steps: &[types::Condition]) -> Option<Condition> {
            if steps.len() > $crate::query::STEPS_MAX {
                return None;
            }
            let mut conditions: Vec<Option<Condition>> = Vec::with_capacity(steps.len());
            for step in steps {
                let mut take = |index: &u32| conditions.get_mut(*index as usize)?.take();
                let condition = match step {
                    types::Condition::Test(test) => Condition::Test(test_of(test)?),
                    types::Condition::All(indices) => Condition::All(indices.iter().map(&mut take).collect::<Option<_>>()?),
                    types::Condition::Any(indices) => Condition::Any(indices.iter().map(&mut take).collect::<Option<_>>()?),
                    types::Condition::Negation(index) => Condition::Not(Box::new(take(index)?)),
                };
                conditions.push(Some(condition));
            }
            conditions.pop()?
        }

        fn test_of(test: &types::Test) -> Option<Test> {
            let types::Test { field, operator, value, ignore_case, parameter } = test.clone();
            let value = value.map(RawValue::from_string).transpose().ok()?;
            Some(Test { field, op: operator.into(), value, ignore_case, parameter })
        }

        impl From<&Test> for types::Test {
            fn from(test: &Test) -> Self {
                Self {
                    field: test.field.clone(),
                    operator: test.op.into(),
                    value: test.value.as_ref().map(|value| value.get().to_owned()),
                    ignore_case: test.ignore_case,
                    parameter: test.parameter.clone(),
                }
            }
        }

        $crate::convert_enum!(
            Operator,
            types::Operator,
            Eq = Eq,
            Ne = Ne,
            Lt = Lt,
            Le = Le,
            Gt = Gt,
            Ge = Ge,
            In = OneOf,
            Contains = Contains,
            StartsWith = StartsWith,
            Matches = Matches,
            Exists = Exists,
            IsNull = IsNull
        );
        $crate::convert_enum!(AggregateKind, types::AggregateKind, Count = Count, Sum = Sum, Min = Min, Max = Max, Avg = Avg);

        impl From<&Query> for types::Query {
            fn from(query: &Query) -> Self {
                let mut where_ = Vec::new();
                match query.conditions.as_slice() {
                    [] => {}
                    [one] => _ = add_steps(one, &mut where_),
                    several => _ = add_steps(&Condition::All(several.to_vec()), &mut where_),
                }
                Self {
                    where_,
                    group: query.group.as_ref().map(Into::into),
                    select: query.select.iter().map(Into::into).collect(),
                    distinct: query.distinct,
                    sort: query.sort.iter().map(Into::into).collect(),
                    sample: query.sample,
                    count: query.count,
                    offset: query.offset,
                    limit: query.limit,
                }
            }
        }

        impl TryFrom<&types::Query> for Query {
            type Error = ();

            /// Fails when the steps of the condition do not form a tree, or a value is not JSON.
            fn try_from(query: &types::Query) -> Result<Self, ()> {
                let conditions = match query.where_.as_slice() {
                    [] => Vec::new(),
                    steps => vec![of_steps(steps).ok_or(())?],
                };
                Ok(Self {
                    conditions,
                    group: query.group.as_ref().map(Into::into),
                    select: query.select.iter().map(Into::into).collect(),
                    distinct: query.distinct,
                    sort: query.sort.iter().map(Into::into).collect(),
                    sample: query.sample,
                    count: query.count,
                    offset: query.offset,
                    limit: query.limit,
                })
            }
        }

        $crate::convert_struct!(Selection, types::Selection, |value| { field: value.field.clone(), name: value.name.clone() });
        $crate::convert_struct!(SortKey, types::SortKey, |value| { field: value.field.clone(), descending: value.descending });
        $crate::convert_struct!(Aggregate, types::Aggregate, |value| {
            kind: value.kind.into(), field: value.field.clone(), name: value.name.clone()
        });
        $crate::convert_struct!(Group, types::Group, |value| {
            by: value.by.iter().map(Into::into).collect(), aggregates: value.aggregates.iter().map(Into::into).collect()
        });
    };
}

/// Implements the conversions for the generated types of the module `$types`, those of the interface `types` in its newest
/// version: settings and queries to them, queries and files from them.
#[macro_export]
macro_rules! conversions {
    ($types:path) => {
        use $crate::{manifest, settings};

        $crate::query_conversions!($types);

        /// Checks that every part which joins another one joins an earlier part that is written.
        pub(crate) fn check_plan(plan: &types::Plan) -> Result<(), String> {
            for (index, part) in plan.parts.iter().enumerate() {
                let types::PlannedPart::Joined(joins) = part else { continue };
                let target = plan.parts.get(*joins as usize).filter(|_| (*joins as usize) < index);
                let is_kept = |part: &_| matches!(part, types::PlannedPart::Keep | types::PlannedPart::Joined(_));
                if target.is_none_or(is_kept) {
                    return Err(format!(
                        "a plan whose part {index} joins part {joins}, which is not an earlier part that is written"
                    ));
                }
            }
            Ok(())
        }

        impl From<settings::Size> for types::Size {
            fn from(size: settings::Size) -> Self {
                let unit = match size.unit {
                    settings::SizeUnit::Bytes => types::SizeUnit::Bytes,
                    settings::SizeUnit::Characters => types::SizeUnit::Characters,
                    settings::SizeUnit::Tokens => types::SizeUnit::Tokens,
                };
                Self { amount: size.amount, unit }
            }
        }

        impl From<types::Size> for settings::Size {
            fn from(size: types::Size) -> Self {
                let unit = match size.unit {
                    types::SizeUnit::Bytes => settings::SizeUnit::Bytes,
                    types::SizeUnit::Characters => settings::SizeUnit::Characters,
                    types::SizeUnit::Tokens => settings::SizeUnit::Tokens,
                };
                Self { amount: size.amount, unit }
            }
        }

        impl From<&settings::PolicySettings> for types::Settings {
            fn from(settings: &settings::PolicySettings) -> Self {
                Self {
                    mode: match settings.mode {
                        settings::DecisionMode::BySize => types::DecisionMode::BySize,
                        settings::DecisionMode::Always => types::DecisionMode::Always,
                        settings::DecisionMode::Never => types::DecisionMode::Never,
                    },
                    threshold: settings.threshold.into(),
                    action: match settings.action {
                        settings::Action::Offload => types::Action::Offload,
                        settings::Action::Truncate => types::Action::Truncate,
                        settings::Action::Reject => types::Action::Reject,
                    },
                    sections: settings.sections.iter().map(Into::into).collect(),
                    inline_keys: settings.inline_keys.clone(),
                    inline_limit: settings.inline_limit,
                    infer: settings.infer,
                    header_type: settings.header_type.clone(),
                    session_key: settings.session_key.clone(),
                    level: match settings.level {
                        settings::DescriptorLevel::Pointer => types::DescriptorLevel::Pointer,
                        settings::DescriptorLevel::Standard => types::DescriptorLevel::Standard,
                        settings::DescriptorLevel::Full => types::DescriptorLevel::Full,
                    },
                    dialect: match settings.dialect {
                        settings::DescriptorDialect::Sections => types::DescriptorDialect::Sections,
                        settings::DescriptorDialect::Specification => types::DescriptorDialect::Specification,
                    },
                    descriptor_limit: settings.descriptor_limit,
                    truncate_limit: settings.truncate_limit.into(),
                    truncate_suffix: settings.truncate_suffix.clone(),
                    advice: settings.advice.clone(),
                    images: match settings.images {
                        settings::ImageMode::Keep => types::ImageMode::Keep,
                        settings::ImageMode::Offload => types::ImageMode::Offload,
                    },
                    images_max: settings.images_max,
                    images_bytes: settings.images_bytes,
                    custom: settings.custom.clone(),
                }
            }
        }

        impl From<&settings::SectionRule> for types::SectionRule {
            fn from(rule: &settings::SectionRule) -> Self {
                let summary = |rule: &settings::SummaryRule| types::SummaryRule {
                    kind: match rule.kind {
                        settings::SummaryKind::Count => types::SummaryKind::Count,
                        settings::SummaryKind::Range => types::SummaryKind::Range,
                        settings::SummaryKind::TopValues => types::SummaryKind::TopValues,
                        settings::SummaryKind::Distinct => types::SummaryKind::Distinct,
                    },
                    field: rule.field.clone(),
                };
                let recipe = |recipe: &settings::Recipe| types::Recipe {
                    name: recipe.name.clone(),
                    description: recipe.description.clone(),
                    command: recipe.command.clone(),
                    // The configuration has already rejected invalid queries.
                    query: recipe
                        .query
                        .as_deref()
                        .and_then(|text| serde_json::from_str::<Query>(text).ok())
                        .map(|query| (&query).into()),
                };
                Self {
                    key: rule.key.clone(),
                    filename_prefix: rule.filename_prefix.clone(),
                    schema: rule.schema.clone(),
                    summaries: rule.summaries.iter().map(summary).collect(),
                    recipes: rule.recipes.iter().map(recipe).collect(),
                }
            }
        }

        impl From<types::FileKind> for manifest::FileKind {
            fn from(kind: types::FileKind) -> Self {
                match kind {
                    types::FileKind::Records => Self::Records,
                    types::FileKind::Text => Self::Text,
                    types::FileKind::Value => Self::Value,
                    types::FileKind::Bytes => Self::Bytes,
                }
            }
        }

        impl From<types::Origin> for manifest::Origin {
            fn from(origin: types::Origin) -> Self {
                match origin {
                    types::Origin::Content => Self::Content,
                    types::Origin::RecordsOfText => Self::RecordsOfText,
                    types::Origin::Outline => Self::Outline,
                }
            }
        }

        impl From<types::Form> for manifest::Form {
            fn from(form: types::Form) -> Self {
                match form {
                    types::Form::JsonLines => Self::JsonLines,
                    types::Form::JsonSequence => Self::JsonSequence,
                    types::Form::JsonWithin => Self::JsonWithin,
                    types::Form::Delimited(types::Delimited { delimiter, header }) => {
                        Self::Delimited { delimiter, header }
                    }
                    types::Form::MarkdownTable => Self::MarkdownTable,
                    types::Form::AlignedTable => Self::AlignedTable,
                    types::Form::PythonLiteral => Self::PythonLiteral,
                    types::Form::Yaml => Self::Yaml,
                    types::Form::Markup => Self::Markup,
                    types::Form::JsonColumns => Self::JsonColumns,
                    types::Form::KeyedBlocks => Self::KeyedBlocks,
                }
            }
        }

        impl From<types::SectionShape> for manifest::RecordShape {
            fn from(shape: types::SectionShape) -> Self {
                match shape {
                    types::SectionShape::Elements => Self::Elements,
                    types::SectionShape::Members => Self::Members,
                    types::SectionShape::Value => Self::Value,
                }
            }
        }

        impl TryFrom<types::File> for manifest::FileRecord {
            type Error = &'static str;

            /// The error says what is wrong with the record.
            fn try_from(file: types::File) -> Result<Self, &'static str> {
                let schema =
                    file.schema.map(RawValue::from_string).transpose().map_err(|_| "a schema that is not JSON")?;
                let queries = file.queries.iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
                Ok(Self {
                    name: file.name,
                    kind: file.kind.into(),
                    section: file.section,
                    parts: file.parts,
                    origin: file.origin.into(),
                    form: file.form.map(Into::into),
                    derived_from: file.derived_from,
                    pointer: file.pointer,
                    shape: file.shape.map(Into::into),
                    media_type: file.media_type,
                    records: file.records,
                    bytes: file.bytes,
                    schema,
                    queries,
                    sha256: None,
                    xxh3: None,
                    digest_from: 0,
                    index: None,
                })
            }
        }

        impl TryFrom<&types::StoredQuery> for manifest::StoredQuery {
            type Error = &'static str;

            /// The error says what is wrong with the query.
            fn try_from(stored: &types::StoredQuery) -> Result<Self, &'static str> {
                let query = Query::try_from(&stored.query).map_err(|()| "an invalid stored query")?;
                let query = serde_json::value::to_raw_value(&query).map_err(|_| "a stored query that is not JSON")?;
                Ok(Self { name: stored.name.clone(), description: stored.description.clone(), query })
            }
        }
    };
}

/// Functions that sanitize what a policy answers, for the generated types of the module `$types`.
#[macro_export]
macro_rules! sanitizing {
    ($types:path) => {
        use $types as types;

        /// Truncates the advice of a rejection to the descriptor limit, because both go to the model.
        pub(crate) fn truncate_advice(verdict: &mut types::Verdict, characters_max: u32) {
            let types::Verdict::Reject(advice) = verdict else { return };
            if let Some((end, _)) = advice.char_indices().nth(characters_max as usize) {
                advice.truncate(end);
                advice.push($crate::text::ELLIPSIS);
            }
        }

        /// Sanitizes the texts of an error for a log.
        pub(crate) fn sanitize_error(error: types::PolicyError, log_bytes: usize) -> types::PolicyError {
            let plain = |text: String| $crate::text::one_line(&text, log_bytes);
            match error {
                types::PolicyError::Invalid(text) => types::PolicyError::Invalid(plain(text)),
                types::PolicyError::Read(types::ReadError::Failed(text)) => {
                    types::PolicyError::Read(types::ReadError::Failed(plain(text)))
                }
                types::PolicyError::Io(text) => types::PolicyError::Io(plain(text)),
                types::PolicyError::Limit(text) => types::PolicyError::Limit(plain(text)),
                types::PolicyError::Other(text) => types::PolicyError::Other(plain(text)),
                error @ (types::PolicyError::Read(_) | types::PolicyError::NoSpace) => error,
            }
        }

        /// Sanitizes the notes and file names of a descriptor for a log: errors about a file quote its name.
        pub(crate) fn sanitize_descriptor(descriptor: &mut types::Descriptor, log_bytes: usize) {
            let mut left = log_bytes;
            let note = |note: &String| {
                let line = (left > 0).then(|| $crate::text::one_line(note, left))?;
                left = left.saturating_sub(line.len().max(1));
                Some(line)
            };
            descriptor.notes = descriptor.notes.iter().map_while(note).collect();
            for file in &mut descriptor.files {
                // A name that this changes was not allowed before, and is not allowed afterwards.
                file.name = $crate::text::one_line(&file.name, $crate::manifest::FILE_NAME_BYTES_MAX);
            }
        }

        /// An error of a policy, completing the sentence "the policy refused: …".
        pub(crate) fn describe(error: &types::PolicyError) -> String {
            match error {
                types::PolicyError::Invalid(text) => format!("invalid settings or plan: {text}"),
                types::PolicyError::Read(error) => format!("a part could not be read: {error:?}"),
                types::PolicyError::NoSpace => "no space left for its output".to_owned(),
                types::PolicyError::Io(text) => format!("its output could not be written: {text}"),
                types::PolicyError::Limit(text) => format!("limit {text}"),
                types::PolicyError::Other(text) => text.clone(),
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! unchanged {
    ($($name:ty),+) => {
        $(impl To<$name> for $name {
            fn to(self) -> $name {
                self
            }
        })+
    };
}

/// Types that both versions spell alike, in both directions.
#[doc(hidden)]
#[macro_export]
macro_rules! alike {
    ($(enum $name:ident { $($case:ident),+ })+) => {
        $(
            impl To<old::$name> for new::$name {
                fn to(self) -> old::$name {
                    match self { $(Self::$case => old::$name::$case),+ }
                }
            }
            impl To<new::$name> for old::$name {
                fn to(self) -> new::$name {
                    match self { $(Self::$case => new::$name::$case),+ }
                }
            }
        )+
    };
    ($(variant $name:ident { $($case:ident),+ })+) => {
        $(
            impl To<old::$name> for new::$name {
                fn to(self) -> old::$name {
                    match self { $(Self::$case(value) => old::$name::$case(value.to())),+ }
                }
            }
            impl To<new::$name> for old::$name {
                fn to(self) -> new::$name {
                    match self { $(Self::$case(value) => new::$name::$case(value.to())),+ }
                }
            }
        )+
    };
    ($(record $name:ident { $($field:ident),+ })+) => {
        $(
            impl To<old::$name> for new::$name {
                fn to(self) -> old::$name {
                    old::$name { $($field: self.$field.to()),+ }
                }
            }
            impl To<new::$name> for old::$name {
                fn to(self) -> new::$name {
                    new::$name { $($field: self.$field.to()),+ }
                }
            }
        )+
    };
}

/// The trait `To` and its implementations, between the generated types of the newest version in the module `$new` and those of
/// 0.1.0 in `$old`; and `plan`, for a plan that 0.1.0 may have no words for.
///
/// What 0.1.0 cannot say is left out of a call.
#[macro_export]
macro_rules! conversions_v0_1 {
    ($new:path, $old:path) => {
        use $new as new;
        use $old as old;

        /// A plan for a policy of version 0.1.0.
        ///
        /// # Errors
        /// [`new::PolicyError::Invalid`] for a plan with records of a text, joined parts, or a section of one value.
        pub(crate) fn plan(plan: &new::Plan) -> Result<old::Plan, new::PolicyError> {
            let parts = plan.parts.iter().enumerate().map(|(index, part)| {
                planned_part(part).ok_or_else(|| {
                    new::PolicyError::Invalid(format!("plan: part {index} needs a policy of lro:filter@0.2.0 or later"))
                })
            });
            Ok(old::Plan { parts: parts.collect::<Result<_, _>>()? })
        }

        fn planned_part(part: &new::PlannedPart) -> Option<old::PlannedPart> {
            Some(match part {
                new::PlannedPart::Keep => old::PlannedPart::Keep,
                new::PlannedPart::Text => old::PlannedPart::Text,
                new::PlannedPart::Bytes => old::PlannedPart::Bytes,
                new::PlannedPart::Sections(sections) => {
                    old::PlannedPart::Sections(sections.iter().map(planned_section).collect::<Option<_>>()?)
                }
                new::PlannedPart::Records(_) | new::PlannedPart::Joined(_) => return None,
            })
        }

        fn planned_section(section: &new::PlannedSection) -> Option<old::PlannedSection> {
            let shape = match section.shape {
                new::SectionShape::Elements => old::SectionShape::Elements,
                new::SectionShape::Members => old::SectionShape::Members,
                new::SectionShape::Value => return None,
            };
            Some(old::PlannedSection { pointer: section.pointer.clone(), shape, name: section.name.clone() })
        }

        /// A value of one version as the same value of another.
        pub(crate) trait To<T> {
            /// The same value.
            fn to(self) -> T;
        }

        impl<A: To<B>, B> To<Vec<B>> for Vec<A> {
            fn to(self) -> Vec<B> {
                self.into_iter().map(To::to).collect()
            }
        }

        impl<A: To<B>, B> To<Option<B>> for Option<A> {
            fn to(self) -> Option<B> {
                self.map(To::to)
            }
        }

        $crate::unchanged!(String, bool, u32, u64);

        $crate::alike! {
            enum PartKind { Text, Structured, Binary, Block, Meta }
            enum SizeUnit { Bytes, Characters, Tokens }
            enum DecisionMode { BySize, Always, Never }
            enum Action { Offload, Truncate, Reject }
            enum DescriptorLevel { Pointer, Standard, Full }
            enum DescriptorDialect { Sections, Specification }
            enum SummaryKind { Count, Range, TopValues, Distinct }
            enum FileKind { Records, Text, Value, Bytes }
            enum AggregateKind { Count, Sum, Min, Max, Avg }
            enum Operator { Eq, Ne, Lt, Le, Gt, Ge, OneOf, Contains, StartsWith, Matches, Exists, IsNull }
        }

        $crate::alike! {
            variant Condition { Test, All, Any, Negation }
        }

        $crate::alike! {
            record Size { amount, unit }
            record Truncation { limit, suffix }
            record SectionRule { key, filename_prefix, schema, summaries, recipes }
            record SummaryRule { kind, field }
            record Recipe { name, description, command, query }
            record StoredQuery { name, description, query }
            record Query { where_, group, select, distinct, sort, sample, count, offset, limit }
            record Test { field, operator, value, ignore_case, parameter }
            record Selection { field, name }
            record SortKey { field, descending }
            record Aggregate { kind, field, name }
            record Group { by, aggregates }
        }

        impl To<old::Part> for new::Part {
            fn to(self) -> old::Part {
                old::Part { kind: self.kind.to(), media_type: self.media_type, name: self.name, size: self.size }
            }
        }

        impl To<old::ReadError> for new::ReadError {
            fn to(self) -> old::ReadError {
                match self {
                    Self::NoSuchPart => old::ReadError::NoSuchPart,
                    Self::WrongKind => old::ReadError::WrongKind,
                    Self::InsideCharacter(start) => old::ReadError::InsideCharacter(start),
                    Self::Failed(text) => old::ReadError::Failed(text),
                }
            }
        }

        impl To<old::Abilities> for new::Abilities {
            fn to(self) -> old::Abilities {
                let pairs = [
                    (Self::SHELL, old::Abilities::SHELL),
                    (Self::EXTRACT_TOOL, old::Abilities::EXTRACT_TOOL),
                    (Self::READ_TOOL, old::Abilities::READ_TOOL),
                ];
                let held = pairs.into_iter().filter(|(ability, _)| self.contains(*ability));
                held.fold(old::Abilities::empty(), |all, (_, ability)| all | ability)
            }
        }

        impl To<old::Call> for new::Call {
            fn to(self) -> old::Call {
                old::Call {
                    id: self.id,
                    time: self.time,
                    tenant: self.tenant,
                    session: self.session,
                    tool: self.tool,
                    query: self.query,
                    is_error: self.is_error,
                    shown_path: self.shown_path,
                    abilities: self.reader.abilities.to(),
                    settings: self.settings.to(),
                }
            }
        }

        impl To<old::Settings> for new::Settings {
            fn to(self) -> old::Settings {
                old::Settings {
                    mode: self.mode.to(),
                    threshold: self.threshold.to(),
                    action: self.action.to(),
                    sections: self.sections.to(),
                    inline_keys: self.inline_keys,
                    inline_limit: self.inline_limit,
                    infer: self.infer,
                    header_type: self.header_type,
                    session_key: self.session_key,
                    level: self.level.to(),
                    dialect: self.dialect.to(),
                    descriptor_limit: self.descriptor_limit,
                    truncate_limit: self.truncate_limit.to(),
                    truncate_suffix: self.truncate_suffix,
                    advice: self.advice,
                    custom: self.custom,
                }
            }
        }

        impl To<new::Verdict> for old::Verdict {
            fn to(self) -> new::Verdict {
                match self {
                    Self::Pass => new::Verdict::Pass,
                    Self::Offload(plan) => new::Verdict::Offload(new::Plan { parts: plan.parts.to() }),
                    Self::Truncate(truncation) => new::Verdict::Truncate(truncation.to()),
                    Self::Reject(advice) => new::Verdict::Reject(advice),
                }
            }
        }

        impl To<new::PlannedPart> for old::PlannedPart {
            fn to(self) -> new::PlannedPart {
                match self {
                    Self::Keep => new::PlannedPart::Keep,
                    Self::Sections(sections) => new::PlannedPart::Sections(sections.to()),
                    Self::Text => new::PlannedPart::Text,
                    Self::Bytes => new::PlannedPart::Bytes,
                }
            }
        }

        impl To<new::PlannedSection> for old::PlannedSection {
            fn to(self) -> new::PlannedSection {
                new::PlannedSection { pointer: self.pointer, shape: self.shape.to(), name: self.name }
            }
        }

        impl To<new::SectionShape> for old::SectionShape {
            fn to(self) -> new::SectionShape {
                match self {
                    Self::Elements => new::SectionShape::Elements,
                    Self::Members => new::SectionShape::Members,
                }
            }
        }

        impl To<new::Descriptor> for old::Descriptor {
            fn to(self) -> new::Descriptor {
                let Self { content, files, offloaded_tokens, notes } = self;
                new::Descriptor { content, files: files.to(), offloaded_tokens, notes }
            }
        }

        impl To<new::File> for old::File {
            fn to(self) -> new::File {
                new::File {
                    name: self.name,
                    kind: self.kind.to(),
                    section: self.section,
                    parts: vec![self.part],
                    origin: new::Origin::Content,
                    form: None,
                    derived_from: None,
                    pointer: self.pointer,
                    shape: self.shape.to(),
                    media_type: self.media_type,
                    records: self.records,
                    bytes: self.bytes,
                    schema: self.schema,
                    queries: self.queries.to(),
                }
            }
        }

        impl To<new::PolicyError> for old::PolicyError {
            fn to(self) -> new::PolicyError {
                match self {
                    Self::Invalid(text) => new::PolicyError::Invalid(text),
                    Self::Read(error) => new::PolicyError::Read(match error {
                        old::ReadError::NoSuchPart => new::ReadError::NoSuchPart,
                        old::ReadError::WrongKind => new::ReadError::WrongKind,
                        old::ReadError::InsideCharacter(start) => new::ReadError::InsideCharacter(start),
                        old::ReadError::Failed(text) => new::ReadError::Failed(text),
                    }),
                    Self::NoSpace => new::PolicyError::NoSpace,
                    Self::Io(text) => new::PolicyError::Io(text),
                    Self::Limit(text) => new::PolicyError::Limit(text),
                    Self::Other(text) => new::PolicyError::Other(text),
                }
            }
        }
    };
}
