// Containers of the C++ library, while they grow.
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Shelf {
    std::string name;
    std::vector<int> sizes;
    std::map<std::string, int> counts;
    std::unique_ptr<Shelf> next;
};

static void stock(Shelf &shelf, const std::string &word)
{
    shelf.name += word;
    shelf.sizes.push_back(static_cast<int>(word.size()));
    shelf.counts[word]++;
}

int main()
{
    Shelf shelf;
    for (const char *word : {"a word", "another, which is longer than the first", "a word"})
        stock(shelf, word);
    shelf.next = std::make_unique<Shelf>();
    return static_cast<int>(shelf.counts.size()) - 2;
}
