"""The nouns, adjectives and names of the Chinese grammar, with their English.

Meaning is kept sensible by *kinds*, as in german/lexicon.py: a noun lists the kinds it belongs to,
an adjective or verb those it accepts, with blanks between them. Verbs are in verbs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from scripts.grammar.shared.names import Name, of_kinds


@dataclass(frozen=True, eq=False)
class Noun:
    """A common noun with its measure word."""

    chinese: str
    english: str
    measure: str
    kinds: str
    plural: str = ""  # English; regular when empty
    container: str = ""  # what the measure word is in English: a *cup* of coffee
    is_mass: bool = False  # English has no plural: coffee, milk


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective and the kinds of noun it describes."""

    chinese: str
    english: str
    kinds: str
    comparative: str = ""  # "more ..." when empty
    joins: bool = False  # stands before a noun without 的: 大西瓜
    takes_little: bool = False  # can be 有点儿 so: nothing one praises
    is_color: bool = False  # is said with 是 ... 的, and of no degree


@dataclass(frozen=True, eq=False)
class Place:
    """Where things happen: 在 NOUN [里] or 在 NOUN."""

    chinese: str
    english: str  # with its article
    kinds: str
    at: str  # the English preposition
    localizer: str = ""  # 里 where Chinese needs it


NOUNS = (
    # People.
    Noun("老师", "teacher", "位", "person adult job"),
    Noun("医生", "doctor", "位", "person adult job"),
    Noun("护士", "nurse", "位", "person adult job"),
    Noun("司机", "driver", "位", "person adult job"),
    Noun("律师", "lawyer", "位", "person adult job"),
    Noun("记者", "reporter", "位", "person adult job"),
    Noun("作家", "writer", "位", "person adult job"),
    Noun("警察", "police officer", "位", "person adult job"),
    Noun("演员", "actor", "位", "person adult job"),
    Noun("工程师", "engineer", "位", "person adult job"),
    Noun("经理", "manager", "位", "person adult job"),
    Noun("厨师", "cook", "位", "person adult job"),
    Noun("歌手", "singer", "位", "person adult job"),
    Noun("教授", "professor", "位", "person adult job"),
    Noun("科学家", "scientist", "位", "person adult job"),
    Noun("学生", "student", "个", "person job crowd"),
    Noun("服务员", "waiter", "个", "person adult job"),
    Noun("孩子", "child", "个", "person young crowd", "children"),
    Noun("男孩", "boy", "个", "person young crowd"),
    Noun("女孩", "girl", "个", "person young crowd"),
    Noun("老人", "old man", "位", "person crowd", "old men"),
    Noun("朋友", "friend", "个", "person own"),
    Noun("同学", "classmate", "个", "person own"),
    Noun("同事", "colleague", "位", "person adult own"),
    Noun("邻居", "neighbor", "位", "person adult own"),
    Noun("客人", "guest", "位", "person adult crowd"),
    Noun("爸爸", "father", "个", "person adult kin"),
    Noun("妈妈", "mother", "个", "person adult kin"),
    Noun("爷爷", "grandfather", "个", "person adult kin"),
    Noun("奶奶", "grandmother", "个", "person adult kin"),
    Noun("哥哥", "older brother", "个", "person adult kin"),
    Noun("弟弟", "younger brother", "个", "person kin"),
    Noun("姐姐", "older sister", "个", "person adult kin"),
    Noun("妹妹", "younger sister", "个", "person kin"),
    # Animals.
    Noun("小狗", "puppy", "只", "animal pet", "puppies"),
    Noun("小猫", "kitten", "只", "animal pet"),
    Noun("兔子", "rabbit", "只", "animal pet"),
    Noun("猴子", "monkey", "只", "animal"),
    Noun("熊猫", "panda", "只", "animal"),
    Noun("小鸟", "bird", "只", "animal pet"),
    Noun("狮子", "lion", "头", "animal"),
    Noun("大象", "elephant", "头", "animal"),
    Noun("老虎", "tiger", "只", "animal"),
    # Food and drink.
    Noun("苹果", "apple", "个", "food fruit"),
    Noun("橘子", "orange", "个", "food fruit"),
    Noun("香蕉", "banana", "个", "food fruit"),
    Noun("西瓜", "watermelon", "个", "food fruit"),
    Noun("鸡蛋", "egg", "个", "food"),
    Noun("土豆", "potato", "个", "food", "potatoes"),
    Noun("饺子", "dumpling", "个", "food cooked"),
    Noun("蛋糕", "cake", "个", "food cooked"),
    Noun("米饭", "rice", "碗", "food", container="bowl", is_mass=True),
    Noun("牛肉面", "beef noodles", "碗", "food cooked", container="bowl", is_mass=True),
    Noun("咖啡", "coffee", "杯", "drink hot", container="cup", is_mass=True),
    Noun("绿茶", "green tea", "杯", "drink hot", container="cup", is_mass=True),
    Noun("果汁", "juice", "杯", "drink", container="glass", is_mass=True),
    Noun("牛奶", "milk", "杯", "drink hot", container="glass", is_mass=True),
    Noun("啤酒", "beer", "瓶", "drink", container="bottle", is_mass=True),
    # To read, watch and hear.
    Noun("书", "book", "本", "text goods small"),
    Noun("小说", "novel", "本", "text goods written"),
    Noun("杂志", "magazine", "本", "text goods small"),
    Noun("报纸", "newspaper", "份", "text goods small"),
    Noun("论文", "paper", "篇", "text written"),
    Noun("邮件", "email", "封", "written mail"),
    Noun("故事", "story", "个", "heard told", "stories"),
    Noun("电影", "movie", "部", "watched"),
    Noun("节目", "program", "个", "watched"),
    Noun("民歌", "folk song", "首", "heard song"),
    # Things.
    Noun("手机", "cell phone", "个", "goods machine small"),
    Noun("电脑", "computer", "台", "goods machine"),
    Noun("相机", "camera", "台", "goods machine small"),
    Noun("手表", "watch", "块", "goods machine small worn", "watches"),
    Noun("自行车", "bicycle", "辆", "goods machine colored ridden"),
    Noun("汽车", "car", "辆", "goods machine colored washed"),
    Noun("摩托车", "motorcycle", "辆", "goods machine colored washed ridden"),
    Noun("冰箱", "refrigerator", "台", "goods machine"),
    Noun("铅笔", "pencil", "支", "goods small colored"),
    Noun("雨伞", "umbrella", "把", "goods small colored"),
    Noun("钥匙", "key", "把", "small"),
    Noun("书包", "schoolbag", "个", "goods small colored"),
    Noun("杯子", "cup", "个", "goods small colored washed"),
    Noun("地图", "map", "张", "goods small"),
    Noun("照片", "photo", "张", "small taken shown"),
    Noun("礼物", "gift", "件", "goods small"),
    Noun("桌子", "table", "张", "goods furniture"),
    Noun("椅子", "chair", "把", "goods furniture colored"),
    Noun("沙发", "sofa", "张", "goods furniture colored"),
    Noun("衬衫", "shirt", "件", "goods clothes colored washed"),
    Noun("毛衣", "sweater", "件", "goods clothes colored washed"),
    Noun("大衣", "coat", "件", "goods clothes colored washed"),
    Noun("裙子", "skirt", "条", "goods clothes colored washed"),
    Noun("围巾", "scarf", "条", "goods worn colored washed", "scarves"),
    Noun("帽子", "hat", "顶", "goods worn colored washed"),
    Noun("房子", "house", "座", "building"),
    Noun("窗户", "window", "扇", "opening"),
)

ADJECTIVES = (
    # People.
    Adjective("年轻", "young", "adult", "younger"),
    Adjective("聪明", "smart", "person animal", "smarter"),
    Adjective("热情", "friendly", "person", "friendlier"),
    Adjective("努力", "hardworking", "person"),
    Adjective("安静", "quiet", "person", "quieter", takes_little=True),
    Adjective("有名", "famous", "job text watched song"),
    Adjective("可爱", "cute", "young animal", "cuter"),
    Adjective("勇敢", "brave", "person", "braver"),
    # Things and places.
    Adjective("新", "new", "goods text watched song building", "newer", joins=True),
    Adjective("旧", "old", "goods", "older", joins=True, takes_little=True),
    Adjective("大", "big", "fruit furniture opening", "bigger", joins=True, takes_little=True),
    Adjective("小", "small", "fruit furniture opening", "smaller", joins=True, takes_little=True),
    Adjective("漂亮", "beautiful", "clothes worn colored building taken"),
    Adjective("便宜", "cheap", "goods", "cheaper"),
    Adjective("昂贵", "expensive", "goods", takes_little=True),
    Adjective("好吃", "delicious", "food"),
    Adjective("新鲜", "fresh", "food fruit", "fresher"),
    Adjective("有意思", "interesting", "text told watched"),
    Adjective("无聊", "boring", "text told watched", takes_little=True),
    Adjective("重要", "important", "written"),
    Adjective("感人", "moving", "text told watched song"),
    Adjective("干净", "clean", "furniture opening", "cleaner"),
    Adjective("红色", "red", "colored", is_color=True),
    Adjective("黑色", "black", "colored", is_color=True),
    Adjective("白色", "white", "colored", is_color=True),
    Adjective("蓝色", "blue", "colored", is_color=True),
    Adjective("绿色", "green", "colored", is_color=True),
)
HAPPY = Adjective("开心", "happy", "")
# How people are at a moment: said of them, not put before the noun.
FEELINGS = (
    Adjective("累", "tired", "", takes_little=True),
    Adjective("忙", "busy", "", takes_little=True),
    Adjective("饿", "hungry", "", takes_little=True),
    HAPPY,
    Adjective("难过", "sad", "", takes_little=True),
    Adjective("紧张", "nervous", "", takes_little=True),
    Adjective("生气", "angry", "", takes_little=True),
)
HEIGHT = Adjective("高", "tall", "person", "taller")
WEATHERS = (
    Adjective("冷", "cold", "", takes_little=True),
    Adjective("热", "hot", "", takes_little=True),
    Adjective("好", "good", ""),
    Adjective("糟糕", "bad", ""),
)

PLACES = (
    Place("学校", "school", "study work busy", "at"),
    Place("公司", "the company", "work", "at"),
    Place("医院", "the hospital", "work", "at"),
    Place("银行", "the bank", "work", "at"),
    Place("机场", "the airport", "awaited", "at"),
    Place("火车站", "the train station", "awaited", "at"),
    Place("图书馆", "the library", "study quiet work", "in"),
    Place("教室", "the classroom", "study quiet", "in", "里"),
    Place("办公室", "the office", "work quiet", "in", "里"),
    Place("公园", "the park", "outdoors", "in", "里"),
    Place("院子", "the yard", "outdoors near", "in", "里"),
    Place("动物园", "the zoo", "sight", "at"),
    Place("博物馆", "the museum", "sight work", "in"),
    Place("电影院", "the cinema", "cinema", "at"),
    Place("饭馆", "the restaurant", "eating", "in", "里"),
    Place("咖啡馆", "the cafe", "eating quiet", "in", "里"),
    Place("超市", "the supermarket", "shop work", "in", "里"),
    Place("商店", "the store", "shop work", "in", "里"),
    Place("书店", "the bookstore", "quiet", "in", "里"),
    Place("厨房", "the kitchen", "kitchen", "in", "里"),
    Place("客厅", "the living room", "room", "in", "里"),
    Place("房间", "the room", "room quiet", "in", "里"),
    Place("宾馆", "the hotel", "work", "at"),
    Place("家里", "home", "home room kitchen eating quiet", "at"),
)

PEOPLE = (
    Name("小明", "Xiaoming", "m"),
    Name("王芳", "Wang Fang", "f"),
    Name("李明", "Li Ming", "m"),
    Name("李娜", "Li Na", "f"),
    Name("张强", "Zhang Qiang", "m"),
    Name("陈静", "Chen Jing", "f"),
    Name("刘洋", "Liu Yang", "m"),
    Name("王明", "Wang Ming", "m"),
    Name("玛丽", "Mary", "f"),
    Name("安娜", "Anna", "f"),
    Name("大卫", "David", "m"),
    Name("彼得", "Peter", "m"),
    Name("杰克", "Jack", "m"),
    Name("汤姆", "Tom", "m"),
    Name("约翰", "John", "m"),
    Name("李先生", "Mr. Li", "m"),
    Name("王先生", "Mr. Wang", "m"),
    Name("赵先生", "Mr. Zhao", "m"),
    Name("李小姐", "Miss Li", "f"),
    Name("王小姐", "Miss Wang", "f"),
)
CITIES = (
    Name("北京", "Beijing"),
    Name("上海", "Shanghai"),
    Name("广州", "Guangzhou"),
    Name("南京", "Nanjing"),
    Name("成都", "Chengdu"),
    Name("杭州", "Hangzhou"),
    Name("香港", "Hong Kong"),
    Name("伦敦", "London"),
    Name("巴黎", "Paris"),
    Name("纽约", "New York"),
    Name("东京", "Tokyo"),
    Name("柏林", "Berlin"),
)
COUNTRIES = (
    Name("中国", "China"),
    Name("法国", "France"),
    Name("德国", "Germany"),
    Name("日本", "Japan"),
    Name("加拿大", "Canada"),
)

NUMBERS = (
    *(("两", "two"), ("三", "three"), ("四", "four"), ("五", "five"), ("六", "six")),
    *(("七", "seven"), ("八", "eight"), ("九", "nine")),
)


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """Return the nouns that belong to one of the kinds."""
    return of_kinds(NOUNS, kinds)


@cache
def places_of(kinds: str) -> tuple[Place, ...]:
    """Return the places that belong to one of the kinds."""
    return of_kinds(PLACES, kinds)


@cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """Return the adjectives that can describe a noun."""
    return of_kinds(ADJECTIVES, noun.kinds)


def spell_number(number: int) -> tuple[str, str]:
    """Write a number from 11 to 99 in Chinese and in English."""
    tens, ones = divmod(number, 10)
    digits = "零一二三四五六七八九"
    chinese = ("" if tens == 1 else digits[tens]) + "十" + (digits[ones] if ones else "")
    if tens == 1:
        return chinese, TEENS[ones]
    return chinese, TENS[tens] + (f"-{UNITS[ones]}" if ones else "")


UNITS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEENS = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"),
    *("sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = (*("", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),)
