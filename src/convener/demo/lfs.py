"""Sixteen small labeling functions for the demo corpus.

They are typical first labeling functions: short word lists, a few patterns and some heuristics. Each
misses many entities, makes some errors and conflicts with others, and some make the same errors; a label
model has to combine them. They were written with the train sentences in view, not those of test.

Each takes the tokens of one sentence or document and yields ``(start, end, type)``, end exclusive.
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
MORE_PLACES = _split_names(
    """Aberdeen, Accra, Adelaide, Ankara, Austin, Bern, Birmingham, Bonn, Bordeaux, Brighton,
    Brisbane, Calgary, Calcutta, Cardiff, Cologne, Dallas, Deal, Denver, Detroit, Dover, Dresden,
    Dubai, Durban, Essen, Exeter, Genoa, Ghent, Granada, Graz, Hague, Hanover, Harare, Havana, Hope,
    Houston, Hull, Izmir, Kampala, Karachi, Kent, Kiel, Kingston, Lahore, Leipzig, Lima, Luton,
    Mainz, Malmo, Marseille, Metz, Mobile, Nancy, Nice, Norwich, Nottingham, Nuremberg, Odessa,
    Ottawa, Palermo, Perth, Phoenix, Pisa, Preston, Quebec, Salzburg, Sandwich, Santa Fe, Seattle,
    Sheffield, Split, Strasbourg, Tours, Trieste, Tunis, Utrecht, Verona, Wells, Worms, York"""
)
FIRST_NAMES = _split_names(
    """Aaron, Abdul, Abigail, Ada, Adam, Agnes, Agnieszka, Ahmed, Aisha, Alan, Albert, Alejandro,
    Alessandro, Alex, Alexander, Alexandra, Alfred, Ali, Alice, Alison, Amanda, Amber, Amina, Amy, Ana,
    Anders, Andrea, Andreas, Andrew, Andrzej, Angel, Angela, Anita, Anja, Anke, Anna, Anne, Annika,
    Anthony, Antoine, Anton, Antonio, April, Arjun, Arthur, Astrid, Aurora, Austin, Barbara, Beatrice,
    Ben, Benjamin, Bernard, Beth, Bill, Birgit, Bjorn, Bob, Boris, Brenda, Brian, Bruno, Camille, Carl,
    Carla, Carlos, Carmen, Carol, Caroline, Catherine, Cecilia, Charles, Charlotte, Chloe, Chris,
    Christian, Christina, Christine, Claire, Clara, Clark, Claudia, Colin, Craig, Dan, Daniel, Daniela,
    David, Dean, Deborah, Denise, Dennis, Diana, Diego, Dirk, Dmitri, Dominic, Donna, Dorothy, Douglas,
    Edmund, Eduardo, Edward, Eleanor, Elena, Elisabeth, Elizabeth, Ella, Ellen, Emil, Emily, Emma,
    Enrique, Eric, Erik, Ernest, Esther, Etienne, Eva, Evelyn, Faith, Fatima, Felix, Femke, Fernando,
    Fiona, Florence, Francesca, Francis, Francisco, Franco, Frank, Frederick, Freja, Gabriel, Gareth,
    Gary, Gavin, George, Georgia, Gerald, Gerhard, Giovanni, Giulia, Gloria, Gordon, Grace, Graham,
    Grant, Greta, Guillaume, Gustav, Hana, Hanna, Hannah, Hans, Harold, Harriet, Harry, Hassan, Heather,
    Heike, Heinz, Helen, Helena, Henrik, Henry, Hope, Howard, Hugh, Hugo, Ian, Ibrahim, Ilaria, Inge,
    Ingrid, Irene, Iris, Isabel, Isabella, Ivan, Jack, Jacob, Jacques, Jade, James, Jan, Jana, Jane,
    Janet, Jason, Jean, Jennifer, Jens, Jeremy, Jesse, Jessica, Jim, Joan, Joanna, Joe, Johan, Johanna,
    John, Jonas, Jonathan, Jordan, Jorge, Jose, Joseph, Joshua, Joy, Juan, Judith, Julia, Julian,
    Juliette, Karen, Karin, Karl, Kate, Katherine, Kathleen, Keith, Kenji, Kenneth, Kevin, Kim, Klaus,
    Kurt, Kwame, Lars, Laura, Lauren, Laurent, Lena, Leo, Leon, Liam, Lily, Linda, Lionel, Lisa,
    Lorenzo, Louis, Louise, Luca, Lucas, Lucia, Lucy, Luis, Luke, Magnus, Malcolm, Manuel, Marc, Marcel,
    Marco, Marcus, Margaret, Maria, Marie, Marina, Mario, Marion, Mark, Marta, Martha, Martin, Mary,
    Mateo, Matthew, Matthias, Max, May, Megan, Mei, Melissa, Mercedes, Mercy, Michael, Michel, Michelle,
    Miguel, Mikhail, Milan, Miriam, Mohamed, Mohammed, Monica, Monika, Nadia, Nancy, Natalia, Natasha,
    Neil, Nicholas, Nicole, Nigel, Nina, Noah, Nora, Norman, Olga, Oliver, Olivia, Omar, Oscar, Otto,
    Owen, Pablo, Paris, Patience, Patricia, Patrick, Paul, Paula, Pauline, Pedro, Penny, Peter, Petra,
    Philip, Philippe, Pierre, Pieter, Priya, Rachel, Rafael, Raj, Ralph, Ramon, Ray, Rebecca, Reginald,
    Rich, Richard, Robert, Roberto, Robin, Roger, Roland, Rosa, Rose, Rosemary, Rowan, Roy, Ruby,
    Rudolf, Ruth, Sally, Sam, Samuel, Sandra, Sara, Sarah, Sean, Sebastian, Sergei, Shane, Sharon,
    Simon, Sofia, Sophie, Stan, Stefan, Stella, Stephen, Steve, Stuart, Summer, Sunny, Susan, Sven,
    Sylvia, Takashi, Tamara, Tanya, Teresa, Theo, Theresa, Thomas, Tim, Tina, Tom, Tomas, Tony, Ursula,
    Valerie, Vera, Veronica, Victor, Victoria, Viktor, Vincent, Virginia, Vladimir, Walter, Wendy,
    Wilhelm, Will, William, Wolfgang, Yusuf, Yvonne, Zoe"""
)
ORGANISATIONS = _split_names(
    """Corvane, Halcyon, Halcyon Bank, Halden Energy, Lumevra, Northwind Airlines, Tarnbrook,
    Veltro, World Seed Archive, Central Bank, European Union, EU, FIFA, NASA, NATO, Interpol,
    Red Cross, Reuters, UNESCO, UNICEF, United Nations, WHO, World Bank, Parliament, Senate,
    Lisbon, Liverpool, Gloucester, Adidas, Airbus, Allianz, Amazon, Apple, Barcelona, Barclays, BBC,
    BMW, Boeing, Bosch, Celtic, Chelsea, Citigroup, Deutsche Bank, Disney, Everton, Facebook, Ford,
    Gap, General Motors, Google, Guardian, Heinz, Honda, HSBC, IBM, Intel, Juventus, Labour,
    Lufthansa, Marathon, Microsoft, Nestle, Netflix, Nike, Nokia, Novartis, Oracle, Orange, Penguin,
    Pfizer, Philips, Post Office, Real Madrid, Renault, Roche, Samsung, Shell, Siemens, Sony, Sprint,
    Target, Tesco, Tesla, Toyota, Twitter, Unilever, Virgin, Visa, Volkswagen, Volvo, Yahoo"""
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
NOT_BEFORE_PERSON = frozenset({"the", "The", "in", "In", "from", "From", "at", "At", "near", "Near"})
CALENDAR = frozenset(
    {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
    | {"January", "February", "March", "April", "May", "June", "July", "August", "September"}
    | {"October", "November", "December"}
)
SPEECH = frozenset({"said", "told", "says", "explained"})
BUSINESS = frozenset(
    {"announced", "arranged", "bought", "built", "closed", "employs", "expects", "makes", "offered", "owns"}
    | {"paid", "plans", "put", "reported", "runs", "sells", "sold", "supplies", "wants"}
)
GEOGRAPHY = frozenset(
    {"Street", "Road", "Lane", "Avenue", "Square", "Park", "Bridge", "River", "Valley", "Hill", "Bay", "Island"}
    | {"Islands", "Sea", "Coast", "Beach", "County", "Forest", "Farm", "Court"}
)
WATERS = frozenset({"Lake", "Loch", "Mount", "Mont", "River", "Cape", "Isle", "Port"})


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
any_case_place = gazetteer(PLACES + MORE_PLACES, "LOC", name="any_case_place", ignore_case=True)
"""The same list and more towns, in capitals or not: it also finds a nice reading in the bath."""
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
    """Mark two capitalized words inside a sentence as a person, unless they look like a place or an organization."""
    for start, end in _capitalized_runs(tokens):
        if not start or end - start != 2 or tokens[start - 1] in NOT_BEFORE_PERSON:
            continue
        if tokens[start] not in WATERS and tokens[end - 1] not in SUFFIXES | GEOGRAPHY:
            yield start, end, "PER"


@labeling_function(["PER"])
def reporting_verb(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark the capitalized words right before or after said, told or says as a person."""
    for start, end in _capitalized_runs(tokens):
        before = end < len(tokens) and tokens[end] in SPEECH
        if before or (start and tokens[start - 1] in SPEECH):
            yield start, end, "PER"


@labeling_function(["LOC"])
def geographic_word(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark names such as Mill Lane, Kentucky River or Lake Victoria."""
    for start, end in _capitalized_runs(tokens):
        if end - start > 1 and (tokens[end - 1] in GEOGRAPHY or tokens[start] in WATERS):
            yield start, end, "LOC"


@labeling_function(["PER"])
def described_person(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark the capitalized words before ", who", ", whose" or an age as in ", 41,"."""
    for start, end in _capitalized_runs(tokens):
        comma, word, after = [*tokens[end : end + 3], "", "", ""][:3]
        if comma == "," and (word in {"who", "whose"} or (word.isdigit() and len(word) == 2 and after in {",", "."})):
            yield start, end, "PER"


@labeling_function(["ORG"])
def business_verb(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark the capitalized words before a verb such as announced, owns or sells."""
    for start, end in _capitalized_runs(tokens):
        if end < len(tokens) and tokens[end] in BUSINESS:
            yield start, end, "ORG"


@labeling_function(["ORG"])
def after_article(tokens: Sequence[str]) -> Iterator[Span]:
    """Mark the capitalized words after the, except days, months and rivers, as an organization."""
    for start, end in _capitalized_runs(tokens):
        if tokens[end - 1] in GEOGRAPHY | CALENDAR or tokens[end : end + 1] == ["of"]:
            continue
        if tokens[start] == "The" and end - start > 1:
            yield start + 1, end, "ORG"
        elif start and tokens[start - 1] == "the":
            yield start, end, "ORG"


@labeling_function(["PER"], scope="document")
def surname_again(doc: Doc) -> Iterator[Span]:
    """Mark the last name of a person whose first name is common wherever it stands alone in the document."""
    spans = [*(first_name.label(doc) or ()), *(after_title.label(doc) or ())]
    surnames = {doc[end - 1] for start, end, _ in spans if end - start > 1}
    for start, end in _capitalized_runs(doc.tokens):
        if end - start == 1 and doc[start] in surnames:
            yield start, end, "PER"


LFS: tuple[LabelingFunction, ...] = (
    place_list,
    any_case_place,
    after_preposition,
    geographic_word,
    first_name,
    after_title,
    surname_again,
    described_person,
    reporting_verb,
    capitalized_pair,
    known_organisation,
    organisation_suffix,
    institution,
    business_verb,
    after_article,
    acronym,
)
