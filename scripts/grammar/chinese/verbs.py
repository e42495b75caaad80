"""The verbs, modal verbs and adverbials of the Chinese grammar.

Adverbials are written word by word as Chinese/TAG/English, as in german/verbs.py; an underscore
joins English words that translate one Chinese word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Literal

from scripts.grammar.chinese.lexicon import Noun


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its English, and the kinds of noun it goes with.

    `use` limits the tenses: an activity has all, an achievement neither the progressive nor habits,
    a state no tense; a motion leads somewhere, a sight is a place to see.
    """

    chinese: str
    english: str
    past: str = ""  # regular when empty
    participle: str = ""  # the past when empty
    object: str = ""
    receiver: str = ""  # 教 somebody something, without 给
    place: str = ""  # 在 ... before the verb
    seat: str = ""  # a city or country after the verb
    use: Literal["activity", "achievement", "state", "motion", "sight"] = "activity"
    is_skill: bool = False  # 会 with it: can
    has_duration: bool = False
    takes_guo: bool = True  # not 游泳, which 过 would split


class Tense(Enum):
    """When a clause without modal verb takes place; shown by 了, 过, 正在 or nothing."""

    PRESENT = auto()
    PROGRESSIVE = auto()  # 正在看: is reading
    PAST = auto()  # 看了: read
    PERFECT = auto()  # 看过: have read


@dataclass(frozen=True, eq=False)
class Modal:
    """A word before the verb, with its English."""

    chinese: str
    english: str
    is_auxiliary: bool = True  # English inverts it: can he; not: does he want to
    tag: str = "AUX"
    joins_not: bool = False  # 不 and the modal are one word: 不会


Mood = Tense | Modal

WILL = Modal("会", "will", joins_not=True)
SKILL = Modal("会", "can", joins_not=True)
CAN = Modal("能", "can", joins_not=True)
WANT = Modal("想", "want to", is_auxiliary=False, joins_not=True)
LIKE = Modal("喜欢", "like to", is_auxiliary=False, tag="VERB")
MODALS = (
    CAN,
    WANT,
    WANT,
    Modal("应该", "should"),
    Modal("打算", "plan to", is_auxiliary=False, tag="VERB"),
    Modal("需要", "need to", is_auxiliary=False),
    Modal("愿意", "be willing to", is_auxiliary=False),
)

VERBS = (
    # No object.
    Verb("睡觉", "sleep", "slept", place="room", takes_guo=False),
    Verb("工作", "work", place="work city", has_duration=True),
    Verb("学习", "study", place="study", has_duration=True),
    Verb("休息", "rest", place="home room outdoors", has_duration=True, takes_guo=False),
    Verb("游泳", "swim", "swam", "swum", is_skill=True, takes_guo=False),
    Verb("跑步", "run", "ran", "run", place="outdoors", takes_guo=False),
    Verb("散步", "take a walk", "took a walk", "taken a walk", place="outdoors", takes_guo=False),
    Verb("跳舞", "dance", is_skill=True, place="outdoors", takes_guo=False),
    Verb("唱歌", "sing", "sang", "sung", is_skill=True, place="outdoors room", takes_guo=False),
    Verb("画画", "paint", is_skill=True, place="outdoors room", takes_guo=False),
    Verb("做饭", "cook", is_skill=True, place="kitchen", takes_guo=False),
    Verb("吃饭", "eat", "ate", "eaten", place="eating", takes_guo=False),
    Verb("聊天", "chat", place="eating outdoors", takes_guo=False),
    Verb("上网", "surf the Internet", place="room eating", takes_guo=False),
    Verb("看电视", "watch TV", place="room", takes_guo=False),
    Verb("打篮球", "play basketball", is_skill=True, takes_guo=False, place="outdoors"),
    Verb("踢足球", "play soccer", is_skill=True, takes_guo=False, place="outdoors"),
    Verb("弹钢琴", "play the piano", is_skill=True, takes_guo=False, place="room"),
    Verb("旅行", "travel", "traveled", place="city country"),
    Verb("起床", "get up", "got up", takes_guo=False),
    Verb("住", "live", seat="city country", use="state", has_duration=True),
    # Going somewhere.
    Verb("去", "go to", "went to", "been to", use="motion"),
    Verb("来", "come to", "came to", "been to", use="motion"),
    Verb("回到", "return to", use="motion", takes_guo=False),
    Verb("离开", "leave", "left", use="motion", takes_guo=False),
    # An object.
    Verb("吃", "eat", "ate", "eaten", object="food fruit", place="eating"),
    Verb("喝", "drink", "drank", "drunk", object="drink", place="eating"),
    Verb("买", "buy", "bought", object="food drink goods", place="shop"),
    Verb("卖", "sell", "sold", object="goods", place="shop"),
    Verb("看", "read", "read", object="text", place="quiet"),
    Verb("看", "watch", object="watched", place="home cinema"),
    Verb("听", "listen to", object="heard", place="room"),
    Verb("写", "write", "wrote", "written", object="written", place="quiet"),
    Verb("唱", "sing", "sang", "sung", object="song", place="outdoors"),
    Verb("穿", "wear", "wore", "worn", object="clothes"),
    Verb("戴", "wear", "wore", "worn", object="worn"),
    Verb("洗", "wash", object="washed pet", place="home"),
    Verb("做", "make", "made", object="cooked", place="kitchen"),
    Verb("画", "draw", "drew", "drawn", object="animal ridden", place="room outdoors"),
    Verb("拍", "take", "took", "taken", object="taken", place="outdoors sight city"),
    Verb("骑", "ride", "rode", "ridden", object="ridden", is_skill=True),
    Verb("使用", "use", object="machine", place="work"),
    Verb("修理", "repair", object="machine"),
    Verb("寻找", "look for", "looked for", object="small pet"),
    Verb("找到", "find", "found", object="small pet", use="achievement"),
    Verb("丢", "lose", "lost", object="small worn", use="achievement"),
    Verb("忘记", "forget", "forgot", "forgotten", object="told", use="achievement"),
    Verb("打开", "open", object="opening mail", use="achievement"),
    Verb("参观", "visit", object="sight", use="sight"),
    Verb("喜欢", "like", object="person pet text watched song clothes", use="state"),
    Verb("认识", "know", "knew", object="person", use="state"),
    Verb("需要", "need", object="goods", use="state"),
    Verb("有", "have", "had", object="goods pet", use="state"),
    Verb("帮助", "help", object="person", place="work"),
    Verb("拜访", "visit", object="adult"),
    Verb("等", "wait for", "waited for", object="person", place="awaited eating"),
    Verb("照顾", "take care of", "took care of", "taken care of", object="person pet"),
    Verb("邀请", "invite", object="person", use="achievement"),
    Verb("感谢", "thank", object="person", use="achievement"),
    Verb("遇到", "meet", "met", object="person", place="shop eating outdoors city",
         use="achievement"),
    Verb("喂", "feed", "fed", object="animal", place="outdoors"),
    # An object and a receiver.
    Verb("送", "give", "gave", "given", object="goods", receiver="person"),
    Verb("借给", "lend", "lent", object="goods", receiver="person", takes_guo=False),
    Verb("教", "teach", "taught", object="language", receiver="person"),
    # Languages.
    Verb("学", "learn", object="language", place="study", has_duration=True),
    Verb("说", "speak", "spoke", "spoken", object="language", is_skill=True),
)  # fmt: skip
PHONE = Verb("打电话", "call", takes_guo=False)
KNOW = Verb("知道", "know", "knew", use="state")
SAYING = (
    Verb("说", "say", "said"),
    Verb("觉得", "think", "thought", use="state"),
    Verb("相信", "believe", use="state"),
    KNOW,
    Verb("希望", "hope", use="state"),
)

LANGUAGES = (
    *(("汉语", "Chinese"), ("英语", "English"), ("法语", "French")),
    *(("德语", "German"), ("日语", "Japanese"), ("西班牙语", "Spanish")),
)

FREQUENCY = ("经常/ADV/often", "总是/ADV/always", "有时候/ADV/sometimes", "很少/ADV/rarely")
NEVER = "从来不/ADV/never"
HABIT_TIMES = (
    "每天/NOUN/every_day",
    "每天/NOUN/every 早上/NOUN/morning",
    "每天晚上/NOUN/every_evening",
    "星期天/NOUN/on_Sundays",
    "星期六/NOUN/on_Saturdays",
    "周末/NOUN/on_weekends",
    "夏天/NOUN/in_summer",
    "冬天/NOUN/in_winter",
    "下午/NOUN/in_the_afternoon",
)
NOW_TIMES = ("现在/NOUN/now", "现在/NOUN/now", "今天/NOUN/today")
FUTURE_TIMES = (
    "明天/NOUN/tomorrow",
    "明天/NOUN/tomorrow 早上/NOUN/morning",
    "后天/NOUN/the_day_after_tomorrow",
    "今天/NOUN/this 晚上/NOUN/evening",
    "这个/DET/this 周末/NOUN/weekend",
    "下个星期/NOUN/next_week",
    "明年/NOUN/next_year",
)
PAST_TIMES = (
    "昨天/NOUN/yesterday",
    "昨天/NOUN/yesterday",
    "昨天下午/NOUN/yesterday_afternoon",
    "昨天晚上/NOUN/last_night",
    "前天/NOUN/the_day_before_yesterday",
    "今天/NOUN/this 早上/NOUN/morning",
    "上个星期/NOUN/last_week",
    "去年/NOUN/last_year",
)
MEANS = (
    "坐火车/VERB/by_train",
    "坐飞机/VERB/by_plane",
    "坐/VERB/by 公共汽车/NOUN/bus",
    "开车/VERB/by_car",
    "骑/VERB/by 自行车/NOUN/bicycle",
)

DAILY_VERBS = tuple(v for v in VERBS if v.use == "activity")
OBJECT_VERBS = tuple(
    v for v in VERBS if v.object and v.object not in ("language", "sight") and not v.receiver
)
PLACED_VERBS = tuple(v for v in VERBS if v.place and v.use == "activity")
MOVING_VERBS = tuple(v for v in VERBS if v.use == "motion")
ACTIVE_VERBS = tuple(v for v in DAILY_VERBS if not v.object)


@cache
def verbs_for_object(noun: Noun) -> tuple[Verb, ...]:
    """Return the verbs that take a noun as object."""
    kinds = set(noun.kinds.split())
    return tuple(verb for verb in OBJECT_VERBS if kinds & set(verb.object.split()))


def _verb(chinese: str) -> Verb:
    return next(verb for verb in VERBS if verb.chinese == chinese)


# Pairs of activities that go on at the same time.
TOGETHER = tuple(
    (_verb(first), _verb(second))
    for first, second in (
        *(("吃饭", "看电视"), ("吃饭", "聊天"), ("散步", "聊天"), ("做饭", "唱歌")),
        *(("跳舞", "唱歌"), ("弹钢琴", "唱歌"), ("做饭", "看电视"), ("画画", "聊天")),
    )
)
