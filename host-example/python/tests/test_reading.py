"""The lazy iterators."""

import asyncio
import types
import unittest

from lro_filter import ListError, LROOffloader, list_items, records
from support import POLICY, Case, rows


async def collected(iterator):
    return [item async for item in iterator]


def serve(pages, fetched):
    """A list whose pages are named by cursors; notes the cursors that are fetched."""

    async def fetch(cursor):
        fetched.append(cursor)
        return pages[cursor]

    return fetch


class Reading(Case):
    def test_records_are_those_of_the_file_however_large_they_are(self):
        data = [*rows(3000), {"id": "a\u2028b\rc\x85d", "name": "x" * 3_000_000}, *rows(2)]
        offloader = LROOffloader(output_dir=self.root, component=POLICY)
        path = offloader.offload_if_needed({"rows": data})["files"]["rows"]
        self.assertEqual(asyncio.run(collected(records(path))), data)

    def test_a_file_is_read_as_its_records_are_used(self):
        path = self.root / "rows.jsonl"
        path.write_text("{}\n" + "1\n" * 2_000_000 + "no JSON\n")

        async def some():
            found = []
            async for record in records(path):
                found.append(record)
                if len(found) == 1000:
                    return found

        self.assertEqual(asyncio.run(some()), [1] * 1000)
        with self.assertRaises(ValueError):
            asyncio.run(collected(records(path)))

    def test_a_list_is_that_of_all_pages(self):
        fetched = []
        pages = {
            None: {"tools": [1, 2], "nextCursor": ""},
            "": types.SimpleNamespace(tools=[3], nextCursor="b"),
            "b": types.SimpleNamespace(tools=[], next_cursor="c"),
            "c": {"tools": [4], "nextCursor": None},
        }
        self.assertEqual(asyncio.run(collected(list_items(serve(pages, fetched), "tools"))), [1, 2, 3, 4])
        self.assertEqual(fetched, [None, "", "b", "c"])

    def test_a_list_that_repeats_a_cursor_ends(self):
        fetched, found = [], []
        pages = {
            None: {"tools": [1], "nextCursor": "a"},
            "a": {"tools": [2], "nextCursor": "b"},
            "b": {"tools": [3], "nextCursor": "a"},
        }

        async def walk():
            async for item in list_items(serve(pages, fetched), "tools"):
                found.append(item)

        with self.assertRaisesRegex(ListError, "'a'"):
            asyncio.run(walk())
        self.assertEqual((found, fetched), ([1, 2, 3], [None, "a", "b"]))


if __name__ == "__main__":
    unittest.main()
