"""Countries by the English words for them and their people."""

_WORDS = """
united states: american, us, usa
united kingdom: british, english, england, scottish, scotland, welsh, wales, uk
ireland: irish
france: french
germany: german
italy: italian
spain: spanish
portugal: portuguese
netherlands: dutch
belgium: belgian
switzerland: swiss
austria: austrian
poland: polish
czech republic: czech
slovakia: slovak
hungary: hungarian
romania: romanian
bulgaria: bulgarian
greece: greek
turkey: turkish
russia: russian, soviet
ukraine: ukrainian
sweden: swedish
norway: norwegian
denmark: danish
finland: finnish
iceland: icelandic
estonia: estonian
latvia: latvian
lithuania: lithuanian
serbia: serbian
croatia: croatian
slovenia: slovenian
bosnia and herzegovina: bosnian
india: indian, telugu, tamil, malayalam, hindi, kannada, bollywood, bengali
pakistan: pakistani
bangladesh: bangladeshi
china: chinese
japan: japanese
south korea: korean
thailand: thai
vietnam: vietnamese
indonesia: indonesian
malaysia: malaysian
philippines: filipino, philippine
australia: australian
canada: canadian
mexico: mexican
brazil: brazilian
argentina: argentine, argentinian
chile: chilean
colombia: colombian
peru: peruvian
venezuela: venezuelan
cuba: cuban
egypt: egyptian
iran: iranian, persian
iraq: iraqi
israel: israeli
lebanon: lebanese
syria: syrian
morocco: moroccan
algeria: algerian
tunisia: tunisian
nigeria: nigerian
ghana: ghanaian
kenya: kenyan
georgia: georgian
armenia: armenian
nepal: nepalese
singapore: singaporean
albania: albanian
uruguay: uruguayan
"""

COUNTRIES: dict[str, str] = {}
"""Word in lower case, such as danish or denmark -> country."""
for _line in _WORDS.strip().splitlines():
    _country, _, _told = _line.partition(": ")
    COUNTRIES |= dict.fromkeys((_country, *_told.split(", ")), _country)
