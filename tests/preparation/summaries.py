"""Small summarization data sets in their published layouts."""

import hashlib

TOPICS = ["storm", "match", "vote", "trial", "fire", "film"]
CITIES = ["Paris", "Lagos", "Lima", "Oslo", "Perth"]
COUNTS = {"train": 40, "valid": 6, "test": 5}
LISTS = {"train": "all_train.txt", "valid": "all_val.txt", "test": "all_test.txt"}


def url(number):
    return f"http://news.example/{number}"


def story_name(number):
    return hashlib.sha1(url(number).encode()).hexdigest()


def article(number):
    topic, city = TOPICS[number % 6], CITIES[number % 5]
    return [f"{city} (CNN) -- A {topic} hit {city} today.", "", f"The {topic} number {number}"]


def highlights(number):
    return [f"{TOPICS[number % 6]} in {CITIES[number % 5]} on day {number}", "Nobody was hurt ."]


def story(number):
    marked = [line for text in highlights(number) for line in ("", "@highlight", "", text)]
    return "\n".join([*article(number), *marked, ""])


def split_numbers():
    """Return ``{split: numbers}`` in the order of the lists, which mix stories of all kinds."""
    starts = {"train": 0, "valid": COUNTS["train"], "test": COUNTS["train"] + COUNTS["valid"]}
    return {
        split: [starts[split] + (7 * i) % count for i in range(count)]
        for split, count in COUNTS.items()
    }


def stories():
    """Return ``{name: content}`` of all stories, half of them under each publisher."""
    return {
        f"{'cnn' if number % 2 else 'dailymail'}/stories/{story_name(number)}.story": story(number)
        for number in range(sum(COUNTS.values()))
    }


def url_lists():
    """Return ``{name: content}`` of the lists of URLs."""
    return {
        LISTS[split]: "".join(f"{url(number)}\n" for number in numbers)
        for split, numbers in split_numbers().items()
    }


def gigaword(count):
    """Return ``(articles, titles)``, lines of text."""
    articles = "".join(
        f"a {TOPICS[i % 6]} hit <unk> {CITIES[i % 5].lower()} at ##.# gmt , no. {i} .\n"
        for i in range(count)
    )
    return articles, "".join(f"{TOPICS[i % 6]} hits {i}\n" for i in range(count))
