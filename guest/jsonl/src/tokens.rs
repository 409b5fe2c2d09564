//! The estimate of tokens.

use lro_json::masks::BLOCK;
use lro_json::{LANE, Lane};

use crate::rule::{
    AFTER_T, BREAK, CAPITALS, CAPITALS_MAX, Class, DIGITS, DIGITS_AFTER_SPACE, FURTHER_BREAK, FURTHER_SPACE, LONG,
    LONGER, OTHER_SIGN, PIECE, POSITION_MAX, SAME_SIGN, SIGN, State, TAB, VOWEL,
};

/// Fewest characters of ASCII that are counted at once: what the cost of a character depends on lies in as many before it.
const ASCII_MIN: usize = POSITION_MAX as usize;

/// Estimates the tokens of a text that is given in pieces, in integers: the same number wherever it is cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    hundredths: u64,
    state: State,
}

impl Tokens {
    /// Adds the next piece of the text.
    pub(crate) fn push(&mut self, text: &str) {
        let (bytes, mut at) = (text.as_bytes(), 0);
        while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let masks = Masks::of(block, self.state.last);
            let ascii = masks.beyond.trailing_zeros() as usize;
            if ascii >= ASCII_MIN {
                self.ascii(&masks, block, ascii);
                at += ascii;
            } else {
                let end = at + BLOCK - masks.beyond.leading_zeros() as usize;
                let end = text.ceil_char_boundary(end);
                self.characters(text.get(at..end).unwrap_or_default());
                at = end;
            }
        }
        self.characters(text.get(at..).unwrap_or_default());
    }

    /// Estimated tokens so far, rounded up.
    pub(crate) fn tokens(&self) -> u64 {
        self.hundredths.div_ceil(100)
    }

    fn characters(&mut self, text: &str) {
        for character in text.chars() {
            self.hundredths += self.state.next(character);
        }
    }

    /// Adds the first characters of a block, at least [`ASCII_MIN`], which are ASCII.
    #[inline(always)]
    fn ascii(&mut self, masks: &Masks, block: &[u8; BLOCK], length: usize) {
        let unused = (BLOCK - length) as u32;
        let used = u64::MAX >> unused;
        let same = masks.same;
        let [letter, capital, digit, space, tab] =
            [masks.letter, masks.capital, masks.digit, masks.space, masks.tab].map(|mask| mask & used);
        let [end, t, h, vowel] = [masks.end, masks.t, masks.h, masks.vowel].map(|mask| mask & used);
        let sign = !(letter | digit | space | tab | end) & used;
        let state = &self.state;
        let was = |class| u64::from(state.class == class);

        let after_letter = letter << 1 | was(Class::Letter);
        let after_capital = capital << 1 | u64::from(state.capitals > 0);
        let first = letter & !(after_letter & !(capital & !after_capital));
        let inner = letter & !first;
        // A run of ones ends at the last inner letter before the block; what is at least 2, 4, 8, 16 long stays of it.
        let before = if state.position == 0 { 0 } else { u64::MAX << (u64::BITS - state.position) };
        let (two, before_two) = (inner & shifted(inner, before, 1), before & before << 1);
        let three = two & shifted(inner, before, 2);
        let (four, before_four) = (two & shifted(two, before_two, 2), before_two & before_two << 2);
        let (eight, before_eight) = (four & shifted(four, before_four, 4), before_four & before_four << 4);
        let sixteen = eight & shifted(eight, before_eight, 8);
        let second = shifted(first & t, u64::from(state.is_t()) << 63, 1) & inner & !h;
        let second_capital = capital & after_capital & !(after_capital << 1 | u64::from(state.capitals > 1));
        let open = shifted(three & vowel, u64::from(state.is_open()) << 63, 1) & !letter & used;

        let first_digit = digit & !(digit << 1 | was(Class::Digit));
        let thirds = self.thirds(digit, first_digit);
        let after_space = space << 1 | was(Class::Space);
        let after_sign = sign << 1 | was(Class::Sign);
        let after_end = end << 1 | was(Class::Break);
        let further_sign = sign & after_sign;

        let count = |mask: u64| u64::from(mask.count_ones());
        self.hundredths += PIECE * count(first) - AFTER_T * count(first & t)
            + AFTER_T * count(second)
            + LONG * count(eight)
            + LONGER * count(sixteen & !same)
            + CAPITALS * count(second_capital)
            + VOWEL * count(open)
            + DIGITS * count(thirds)
            + DIGITS_AFTER_SPACE * count(first_digit & after_space)
            + SIGN * count(sign & !after_sign)
            + OTHER_SIGN * count(further_sign & !same)
            + SAME_SIGN * count(further_sign & same)
            + BREAK * count(end & !after_end)
            + FURTHER_BREAK * count(end & after_end)
            + TAB * count(tab)
            + FURTHER_SPACE * count(space & after_space);
        let last = block[length - 1];
        self.state = State {
            class: Class::of(char::from(last)),
            last,
            position: (inner << unused).leading_ones().min(POSITION_MAX),
            digits: if last.is_ascii_digit() { ((thirds << unused).leading_zeros() + 1) % 3 } else { 0 },
            capitals: (capital << unused).leading_ones().min(CAPITALS_MAX),
        };
    }

    /// Marks every third digit of each run, from the first on.
    #[inline(always)]
    fn thirds(&self, digit: u64, first: u64) -> u64 {
        let in_run = u64::from(self.state.class == Class::Digit);
        // The run before the block goes on: its next third comes after as many digits as the block begins with, or not.
        let seed = in_run << ((3 - self.state.digits) % 3);
        let begun = u64::MAX >> (BLOCK as u32 - digit.trailing_ones()).min(63) & (digit & 1).wrapping_neg();
        let mut marks = first | seed & begun;
        let mut steps = digit & digit << 1 & digit << 2;
        let mut distance = 3;
        while steps != 0 && distance < BLOCK {
            marks |= steps & marks << distance;
            steps &= steps << distance;
            distance *= 2;
        }
        marks
    }
}

/// A mask moved up by `by`, with the highest bits of the mask before it.
#[inline(always)]
fn shifted(mask: u64, before: u64, by: u32) -> u64 {
    mask << by | before >> (u64::BITS - by)
}

/// The positions of classes of characters in a block; other bytes are those of characters beyond ASCII.
#[derive(Default)]
struct Masks {
    letter: u64,
    capital: u64,
    digit: u64,
    space: u64,
    tab: u64,
    /// CR and LF.
    end: u64,
    /// `t` and `T`.
    t: u64,
    /// `h` and `H`.
    h: u64,
    vowel: u64,
    /// Bytes equal to the one before.
    same: u64,
    /// Bytes of characters beyond ASCII.
    beyond: u64,
}

impl Masks {
    /// The masks of a block after the byte `last`.
    #[inline(always)]
    fn of(block: &[u8; BLOCK], last: u8) -> Self {
        let mut shifted = [last; BLOCK];
        shifted[1..].copy_from_slice(&block[..BLOCK - 1]);
        let (lanes, before) = (block.as_chunks::<LANE>().0, shifted.as_chunks::<LANE>().0);
        let mut masks = Self::default();
        for (index, (lane, before)) in lanes.iter().zip(before).enumerate() {
            let bits = |lane: Lane| u64::from(lane.bits()) << (index * LANE);
            let lane = Lane::load(lane);
            let small = lane.or(Lane::splat(0x20));
            let vowel = small.equal(b'a').or(small.equal(b'i')).or(small.equal(b'o')).or(small.equal(b'u'));
            masks.beyond |= bits(lane);
            masks.letter |= bits(small.minus(b'a').at_most(25));
            masks.capital |= bits(lane.minus(b'A').at_most(25));
            masks.digit |= bits(lane.minus(b'0').at_most(9));
            masks.space |= bits(lane.equal(b' '));
            masks.tab |= bits(lane.equal(b'\t'));
            masks.end |= bits(lane.equal(b'\n').or(lane.equal(b'\r')));
            masks.t |= bits(small.equal(b't'));
            masks.h |= bits(small.equal(b'h'));
            masks.vowel |= bits(vowel);
            masks.same |= bits(lane.same(Lane::load(before)));
        }
        masks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_character(text: &str) -> u64 {
        let mut state = State::default();
        text.chars().map(|character| state.next(character)).sum()
    }

    /// Each row of the rule.
    #[test]
    fn costs_are_those_of_the_rule() {
        let rows = [
            ("", 0),
            ("a", 115),
            ("word word", 230),
            ("The", 30),
            ("table", 115),
            ("t", 30),
            ("oneTwo", 115 + 30 + 85),
            ("ABCD", 115 + 108),
            ("abcdefgh", 115),
            ("abcdefghijklmnopqr", 115 + 8 * 30 + 2 * 60),
            ("aaaaaaaaaaaaaaaaaa", 115 + 10 * 30),
            ("éééééééééééééééééé", 18 * 217 + 115 + 8 * 30 + 2 * 60),
            ("data ", 115 + 112),
            ("area", 115),
            ("Via.", 115 + 79),
            ("1234567", 3 * 114),
            (" 12", 114 + 85),
            ("...", 79 + 2 * 16),
            (".,.", 79 + 2 * 11),
            ("\r\n\n", 110 + 2 * 6),
            ("\t\t", 84),
            ("    ", 3),
            ("\u{1}", 79),
            ("é", 115 + 217),
            ("aé", 115 + 217),
            ("éA", 115 + 217 + 115),
            ("ж漢😀", 58 + 101 + 241),
        ];
        for (text, hundredths) in rows {
            assert_eq!(by_character(text), hundredths, "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Blocks cost what their characters cost, wherever the text is cut.
        #[test]
        fn blocks_are_as_characters(
            text in "([a-d]{1,40}|a{1,40}|é{1,20}|[thTHaiouAIOU]{1,6}|[A-C]{1,20}|[0-9]{1,90}|[.,=\"{]{1,4}|=| {1,3}|\r?\n|\t|ß|漢|[ -~]{1,80}){0,30}",
            cuts in prop::collection::vec(0_usize..200, 0..6),
        ) {
            let (mut tokens, mut rest) = (Tokens::default(), text.as_str());
            for cut in cuts {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(cut.min(rest.len())));
                tokens.push(piece);
                rest = after;
            }
            tokens.push(rest);
            prop_assert_eq!(tokens.hundredths, by_character(&text));
        }
    }
}
