// The default text of `serval verify`, written for it in the style of the bundled model's stories.
#pragma once

namespace serval::cli {

inline constexpr const char* kVerifyText =
    "Once upon a time, there was a little fox named Pip. Pip lived with his mother at the edge of a quiet "
    "forest, "
    "where a small river ran down to the lake. Every morning he went out to look for berries, and every "
    "evening he "
    "came home with purple paws. One day, Pip found a kite in the grass. It was red, with a long blue tail. "
    "\"I wish "
    "I could fly like this kite,\" said Pip. He ran up the hill and held the string as tight as he could. "
    "The wind "
    "came, and the kite went up and up, but Pip stayed on the ground. He was sad. An old owl was sitting in "
    "the big "
    "oak tree. \"Why do you cry, little fox?\" asked the owl. \"I want to see the world from the sky,\" said "
    "Pip, "
    "\"but I have no wings.\" The owl thought for a while. \"You do not need wings,\" she said. \"You need a "
    "friend "
    "who has them.\" Then she told him about a balloon that a boy had left behind the barn. They went to "
    "look for "
    "it together. The balloon was flat and dirty, but Pip washed it in the river and the owl brought a "
    "basket. A "
    "rabbit named Lily came to help, and so did her brother Ben. They worked all afternoon. When the sun was "
    "low, "
    "the balloon was round and bright again. \"Hold on!\" called the owl. The basket left the ground. Pip "
    "looked "
    "down and saw the forest, the lake and the little house where his mother was waving. \"Thank you,\" he "
    "said to "
    "his friends. \"I could not have done it alone.\" When they came down it was already dark, and the stars "
    "were "
    "shining. His mother gave everyone warm soup and bread. Pip told her about the clouds and the wind, and "
    "how "
    "small the river was from above. That night he slept very well. From that day on, whenever somebody in "
    "the "
    "forest had a wish, Pip did not laugh. He sat down beside them and asked, \"How can I help?\" And when "
    "the kite "
    "was found by the boy who had lost it, Pip gave it back with a smile, because he did not need it any "
    "more.";

}  // namespace serval::cli
