"""Files: writing them whole or not at all, lines and JSON, compression, digests, and errors."""

from jtrans.files.cache import OFFLINE as OFFLINE
from jtrans.files.cache import cache_folder as cache_folder
from jtrans.files.cache import is_offline as is_offline
from jtrans.files.digests import file_digest as file_digest
from jtrans.files.digests import lines_digest as lines_digest
from jtrans.files.digests import remembered_digest as remembered_digest
from jtrans.files.digests import short_digest as short_digest
from jtrans.files.digests import text_digest as text_digest
from jtrans.files.faults import creation_errors as creation_errors
from jtrans.files.faults import disk_errors as disk_errors
from jtrans.files.names import as_text as as_text
from jtrans.files.names import path_hint as path_hint
from jtrans.files.packed import open_unpacked as open_unpacked
from jtrans.files.text import raw_lines as raw_lines
from jtrans.files.text import read_json as read_json
from jtrans.files.text import read_lines as read_lines
from jtrans.files.text import write_json as write_json
from jtrans.files.text import write_lines as write_lines
from jtrans.files.text import write_text as write_text
from jtrans.files.whole import behind_links as behind_links
from jtrans.files.whole import foreign_file as foreign_file
from jtrans.files.whole import irreplaceable as irreplaceable
from jtrans.files.whole import remove_leftovers as remove_leftovers
from jtrans.files.whole import whole_file as whole_file
from jtrans.files.whole import whole_folder as whole_folder
from jtrans.files.whole import write_bytes as write_bytes
