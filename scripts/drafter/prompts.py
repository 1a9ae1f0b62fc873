"""Prompts by domain, made from templates and word lists: deterministic in the seed. Training and held-out prompts differ in
templates and in topics. Knows no model and no server."""
import random

DOMAINS = ("chat", "code", "sums", "lists", "rewriting", "copying")

# Every list below is cut in two: `train` and `held_out` prompts never share a template or a topic.
TOPICS = """bicycles; volcanoes; the ocean; bread; winter; libraries; honey bees; railways; the moon; gardens; chess; coffee; bridges;
penguins; rivers; painting; earthquakes; trees; clocks; maps; languages; mountains; markets; football; rain; castles; robots;
soup; dreams; ships; music; deserts; electricity; birds; cities; friendship; memory; farming; glass; paper; spices; wolves;
lighthouses; rice; windmills; photography; whales; caves; stars; cooking; swimming; recycling; teachers; hospitals; radio;
ice cream; tea; silk; kites; museums; owls; dinosaurs; insects; solar power; healthy sleep; public transport; saving money;
learning to draw; camping; the water cycle; the Roman Empire; photosynthesis; gravity; the human heart; democracy; inflation;
vaccines; the internet; black holes; plate tectonics; evolution; sound; magnets; atoms; the French Revolution; jazz; yoga;
running; pottery; knitting; carpentry; astronomy; geology; tides; clouds; fossils; coral reefs; rainforests; glaciers""".replace("\n", " ").split("; ")

CHAT = ("What is the most interesting fact about {topic}?", "Explain {topic} to a child in a few sentences.",
        "Write a short paragraph about {topic}.", "Why do people care about {topic}?", "Tell me a short story about {topic}.",
        "How has our view of {topic} changed over time?", "Give me some advice about {topic}.", "What should a beginner know about {topic}?",
        "Write a friendly email to a colleague about {topic}.", "Describe {topic} without using technical words.",
        "What are common mistakes people make with {topic}?", "Write a poem about {topic}.", "Summarize what you know about {topic}.",
        "What would the world be like without {topic}?", "Is there anything surprising about {topic}?", "Write an introduction to a talk on {topic}.")
LISTS = ("List {n} facts about {topic}.", "Give me {n} ideas for a project about {topic}.", "Write a numbered list of {n} tips on {topic}.",
         "Name {n} words related to {topic}.", "What are the top {n} reasons to learn about {topic}?", "Make a checklist of {n} items for {topic}.",
         "Give {n} questions I could ask about {topic}.", "List {n} books or films on {topic} and say why.")
CODE_TASKS = """returns the sum of a list; reverses a string; checks whether a number is prime; counts the vowels in a word; finds the largest
item of a list; sorts a list of numbers; computes the factorial of n; returns the n-th Fibonacci number; removes duplicates from a list;
checks whether a word is a palindrome; merges two sorted lists; counts the words in a text; converts Celsius to Fahrenheit; finds
the index of an item; flattens a nested list; computes the average of a list; reads a file and prints its lines; finds common items of
two lists; converts a number to binary; returns the even numbers of a list; computes the greatest common divisor; capitalizes each word;
checks whether two words are anagrams; splits a list in chunks; rotates a list; finds the second largest number; validates an email
address; counts how often each letter occurs; transposes a matrix; performs a binary search; generates a random password; computes the
power of a number; swaps two variables; prints a multiplication table; sums the digits of a number; checks for a leap year; finds the
longest word; zips two lists into a dictionary; inverts a dictionary; draws a triangle of stars""".replace("\n", " ").split("; ")
CODE = ("Write a Python function that {task}.", "Write a function in JavaScript that {task}.", "Show me Python code that {task}, with comments.",
        "Write a C function that {task}.", "Give me a Python class with a method that {task}.", "Write a unit test and a Python function that {task}.",
        "How do I write a program that {task}?", "Write a short Python script that {task} and prints the result.")
SUMS = ("What is {a} + {b}?", "Compute {a} - {b} step by step.", "What is {c} times {d}?", "A shop sells {a} apples and {b} pears. How many pieces of fruit is that?",
        "Tom has {a} coins and gives away {c}. How many are left? Explain.", "What is half of {e}?", "Add {a}, {b} and {c}.",
        "A train travels {c} km an hour for {d} hours. How far does it go?", "If one ticket costs {c} dollars, what do {d} tickets cost?",
        "Continue the sequence and explain the rule: {c}, {f}, {g}")
SENTENCES = """The meeting was moved to Thursday because the manager is ill.; We went to the beach yesterday and it was very hot there.;
Their house is much more bigger than ours.; The company announced that sales has increased by ten percent.; I am writing to ask about the
job that you advertised last week.; The dog, which was hungry, ran quickly through the park.; Please find attached the report that you asked
for.; He don't know where he put his keys.; The new phone has a better camera and a longer battery life.; Students who read every day
learn new words faster.; Our team finished the project two weeks early.; The museum is closed on Mondays, but the garden stays open.; She
has been working here since five years.; The recipe needs two eggs, a cup of flour and some sugar.; Many people think that the city should build
more parks.; The storm damaged several roofs and knocked down a tree.; It is important to drink water when it is hot outside.; The old
bridge was replaced by a new one last summer.; My brother plays the guitar and my sister plays the piano.; The library will lend you up
to ten books at a time.""".replace("\n", " ").split("; ")
REWRITING = ("Rewrite this sentence in a formal tone: {text}", "Correct the grammar: {text}", "Make this shorter: {text}",
             "Rewrite this as a question: {text}", "Put this into the past tense: {text}", "Rephrase this politely: {text}",
             "Translate into simple English: {text}", "Turn this into a headline: {text}")
COPYING = ("Repeat this text exactly: {text} {more}", "Copy the following words: {text} {more}", "Quote this back to me: {text} {more}",
           "Print this text unchanged: {text} {more}", "Say the same words again, without any change: {text} {more}")


def part(items, held_out):
    """Every fifth item is held out."""
    return [item for i, item in enumerate(items) if (i % 5 == 4) == held_out]


def prompt(domain, held_out, rng):
    pick = lambda items: rng.choice(part(items, held_out))  # noqa: E731
    if domain == "chat":
        return pick(CHAT).format(topic=pick(TOPICS))
    if domain == "lists":
        return pick(LISTS).format(topic=pick(TOPICS), n=rng.randint(3, 9))
    if domain == "code":
        return pick(CODE).format(task=pick(CODE_TASKS))
    if domain == "sums":
        a, b, c, d = rng.randint(2, 999), rng.randint(2, 999), rng.randint(2, 60), rng.randint(2, 12)
        return pick(SUMS).format(a=a, b=b, c=c, d=d, e=2 * a, f=c + d, g=c + 2 * d)
    if domain == "rewriting":
        return pick(REWRITING).format(text=pick(SENTENCES))
    if domain == "copying":
        return pick(COPYING).format(text=pick(SENTENCES), more=pick(SENTENCES))
    raise ValueError(f"domain {domain!r} is none of {', '.join(DOMAINS)}")


def prompts(count, held_out, seed):
    """`count` pairs (domain, text), domains in turn; repeats are possible where a domain is small."""
    rng = random.Random(seed)
    return [(DOMAINS[i % len(DOMAINS)], prompt(DOMAINS[i % len(DOMAINS)], held_out, rng)) for i in range(count)]
