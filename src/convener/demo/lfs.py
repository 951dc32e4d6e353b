"""Ten small labeling functions for the demo corpus.

They are typical first labeling functions: short word lists, a few patterns and some heuristics. Each
misses many entities, makes some errors and conflicts with others; a label model has to combine them.

Each takes the tokens of one sentence and yields ``(start, end, type)``, end exclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.pattern import pattern
from convener.lf.validation import Span


def _split_names(text: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in text.replace("\n", " ").split(",")]


PLACES = _split_names(
    """Amsterdam, Antwerp, Athens, Auckland, Bangkok, Barcelona, Basel, Bath, Beijing, Belgrade,
    Bergen, Berlin, Bilbao, Boston, Bratislava, Bristol, Brussels, Bucharest, Budapest,
    Buenos Aires, Cairo, Cambridge, Chicago, Copenhagen, Cork, Delhi, Dublin, Edinburgh,
    Florence, Frankfurt, Geneva, Glasgow, Gothenburg, Hamburg, Hanoi, Helsinki, Hong Kong,
    Istanbul, Jakarta, Kyoto, Lagos, Leeds, Lima, Lincoln, Lisbon, Ljubljana, London,
    Los Angeles, Lyon, Madrid, Manchester, Manila, Melbourne, Miami, Milan, Montreal, Moscow,
    Mumbai, Munich, Nairobi, Naples, New Orleans, New York, Osaka, Oslo, Oxford, Paris, Porto,
    Prague, Reading, Reykjavik, Riga, Rio de Janeiro, Rome, Rotterdam, San Francisco, Santiago,
    Seoul, Seville, Shanghai, Singapore, Sofia, Stockholm, Sydney, Tallinn, Tokyo, Toronto,
    Turin, Valencia, Vancouver, Venice, Victoria, Vienna, Vilnius, Warsaw, Wellington, Zagreb,
    Zurich, Algeria, Argentina, Australia, Austria, Belgium, Bolivia, Brazil, Britain, Bulgaria,
    Canada, Chad, Chile, China, Colombia, Croatia, Cuba, Cyprus, Denmark, Ecuador, Egypt,
    England, Estonia, Ethiopia, Finland, France, Georgia, Germany, Ghana, Greece, Honduras,
    Hungary, Iceland, India, Indonesia, Ireland, Israel, Italy, Japan, Jordan, Kenya, Latvia,
    Lithuania, Luxembourg, Mali, Malta, Mexico, Morocco, Nepal, Netherlands, New Zealand,
    Nigeria, Norway, Pakistan, Peru, Philippines, Poland, Portugal, Romania, Russia, Rwanda,
    Scotland, Senegal, Serbia, Slovakia, Slovenia, South Africa, South Korea, Spain, Sweden,
    Switzerland, Tanzania, Thailand, Turkey, Uganda, Ukraine, United Kingdom, United States,
    Uruguay, Vietnam, Wales, Africa, Asia, Europe, California, Florida, Texas, Virginia, Thames,
    Rhine, Danube, Atlantic, Pacific"""
)
FIRST_NAMES = _split_names(
    """Adam, Agnes, Alan, Alice, Amy, Ana, Andrew, Anna, Anton, Ben, Carlos, Carmen, Carol,
    Charlotte, Chloe, Claire, Daniel, David, Denise, Diana, Diego, Elena, Ella, Emil, Emma, Eric,
    Etienne, Eva, Fiona, Florence, Frank, Franco, George, Georgia, Giulia, Grace, Greta, Hanna,
    Hannah, Harriet, Helen, Henrik, Ingrid, Jack, James, Jane, Jean, John, Jordan, Jose, Joseph,
    Juan, Julia, Karen, Kate, Kenji, Laura, Linda, Lionel, Louis, Luca, Lucy, Marc, Margaret,
    Maria, Mark, Marta, Mary, Max, Michael, Monica, Nadia, Nina, Olga, Oscar, Owen, Paul, Paula,
    Peter, Pierre, Priya, Rafael, Ray, Richard, Robert, Rosa, Ruth, Sam, Samuel, Sara, Sofia,
    Stan, Susan, Teresa, Thomas, Victor, Victoria, Viktor, Virginia, William, Yusuf, Zoe"""
)
ORGANISATIONS = _split_names(
    """Corvane, Halcyon, Halcyon Bank, Halden Energy, Lumevra, Northwind Airlines, Tarnbrook,
    Veltro, World Seed Archive, Central Bank, European Union, EU, FIFA, NASA, NATO, Interpol,
    Red Cross, Reuters, UNESCO, UNICEF, United Nations, WHO, World Bank, Parliament, Senate,
    Lisbon, Liverpool, Gloucester"""
)
TITLES = frozenset(
    {"Dr", "Mr", "Mrs", "Ms", "Prof", "Professor", "Sir", "President", "Minister", "Mayor"}
    | {"Captain", "Judge", "Coach", "Director", "Councillor", "Inspector", "Chairman"}
)
SUFFIXES = frozenset(
    {"Ltd", "Inc", "Corp", "Group", "Bank", "Institute", "Foundation", "Airlines", "Motors"}
    | {"Society", "Company", "Trust", "Energy", "Capital", "Museum", "College", "Orchestra"}
    | {"Association", "Union", "Club", "Centre", "Prize"}
)
INSTITUTIONS = frozenset({"University", "Ministry", "Institute", "Museum", "College", "Department", "Bank", "Port"})
AUTHORITIES = frozenset({"Council", "Commission", "Authority", "Agency", "Office", "Court"})
PREPOSITIONS = frozenset({"in", "In", "from", "From", "at", "At", "near", "Near", "to", "of"})
CALENDAR = frozenset(
    {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
    | {"January", "February", "March", "April", "May", "June", "July", "August", "September"}
    | {"October", "November", "December"}
)
SPEECH = frozenset({"said", "told", "says", "explained"})


def _capitalized(token: str) -> bool:
    """Whether a token starts with a capital and is longer than one letter."""
    return len(token) > 1 and token[0].isupper()


def _run_end(tokens: Sequence[str], start: int) -> int:
    """The end of the run of capitalized tokens that starts at `start`."""
    end = start
    while end < len(tokens) and _capitalized(tokens[end]):
        end += 1
    return end


def _capitalized_runs(tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the maximal runs of capitalized tokens."""
    start = 0
    while start < len(tokens):
        end = _run_end(tokens, start)
        if end > start:
            yield start, end
        start = max(end, start + 1)


place_list = gazetteer(PLACES, "LOC", name="place_list")
"""Cities, countries and other places in a short list."""
known_organisation = gazetteer(ORGANISATIONS, "ORG", name="known_organisation")
"""Organizations that are often in the news."""
acronym = pattern(r"\p{Lu}{2,5}", "ORG", match="tokens", name="acronym")
"""Words of two to five capital letters."""
_common_names = gazetteer(FIRST_NAMES, "PER", name="common names")


@labeling_function(["PER"])
def first_name(tokens: Doc) -> Iterator[Span]:
    """Mark a common first name and the capitalized words that follow it."""
    last = 0
    for start, end, _ in _common_names.label(tokens) or ():
        if start >= last:
            last = _run_end(tokens, end)
            yield start, last, "PER"


@labeling_function(["PER"])
def after_title(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark the capitalized words after a title such as Dr. or Professor."""
    last = 0
    for position, token in enumerate(tokens):
        if token in TITLES and position >= last:
            start = position + 1
            if start < len(tokens) and tokens[start] == ".":
                start += 1
            last = _run_end(tokens, start)
            if last > start:
                yield start, last, "PER"


@labeling_function(["ORG"])
def organisation_suffix(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark capitalized words that end in Ltd, Group, Bank, Institute and the like."""
    for start, end in _capitalized_runs(tokens):
        if end - start > 1 and tokens[end - 1] in SUFFIXES:
            yield start, end, "ORG"


@labeling_function(["ORG"])
def institution(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark names such as University of Porto, Ministry of Finance or Porto City Council."""
    last = 0
    for start, end in _capitalized_runs(tokens):
        if start < last:
            continue
        if tokens[end - 1] in AUTHORITIES:
            yield start, end, "ORG"
        elif tokens[end - 1] in INSTITUTIONS and end < len(tokens) and tokens[end] == "of":
            last = _run_end(tokens, end + 1)
            if last > end + 1:
                yield end - 1, last, "ORG"


@labeling_function(["LOC"])
def after_preposition(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark capitalized words after in, from, at, near, to or of as places."""
    for start, end in _capitalized_runs(tokens):
        if start and tokens[start - 1] in PREPOSITIONS and tokens[start] not in CALENDAR:
            yield start, end, "LOC"


@labeling_function(["PER"])
def capitalized_pair(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark any two capitalized words inside a sentence as a person."""
    for start, end in _capitalized_runs(tokens):
        if start and end - start == 2:
            yield start, end, "PER"


@labeling_function(["PER"])
def speaker(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark the capitalized words right before or after said, told or says as a person."""
    for start, end in _capitalized_runs(tokens):
        before = end < len(tokens) and tokens[end] in SPEECH
        if before or (start and tokens[start - 1] in SPEECH):
            yield start, end, "PER"


LFS: tuple[LabelingFunction, ...] = (
    place_list,
    first_name,
    known_organisation,
    after_title,
    organisation_suffix,
    institution,
    acronym,
    after_preposition,
    capitalized_pair,
    speaker,
)
