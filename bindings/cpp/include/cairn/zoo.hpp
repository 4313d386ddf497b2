/* zoo.hpp: well-known networks by name, generation of text with its caches, embeddings. */
#ifndef CAIRN_ZOO_HPP
#define CAIRN_ZOO_HPP

#include <cairn/data.hpp>
#include <cairn/module.hpp>
#include <cairn/zoo.h>

namespace cn {

struct ZooOptions {
  ZooOptions &classes(int64_t value) { o_.classes = value; return *this; }
  ZooOptions &channels(int64_t value) { o_.channels = value; return *this; }
  ZooOptions &image(int64_t value) { o_.image = value; return *this; }
  ZooOptions &vocab(int64_t value) { o_.vocab = value; return *this; }
  ZooOptions &pretrained(const std::string &value) { pretrained_ = value; return *this; } /* a file, "imagenet" */
  ZooOptions &config(Tree value) { config_ = std::move(value); return *this; }
  ZooOptions &device(Device value) { o_.device = value.number(); return *this; }
  ZooOptions &dtype(DType value) { o_.dtype = value; return *this; }

  cn_zoo_opts o_ = detail::opts<cn_zoo_opts>();
  std::string pretrained_;
  Tree config_;
};

/* cn::zoo("resnet18", cn::ZooOptions().classes(10)). */
inline AnyModule zoo(const std::string &name, const ZooOptions &options = {})
{
  cn_zoo_opts o = options.o_;
  o.pretrained = options.pretrained_.empty() ? nullptr : options.pretrained_.c_str();
  o.config = options.config_.get();
  return AnyModule(detail::Made{detail::check(cn_zoo_with(name.c_str(), &o))});
}
inline std::vector<std::string> zoo_names()
{
  std::vector<std::string> names;
  const char *name, *doc;
  for (size_t i = 0; cn_zoo_at(i, &name, &doc); i++) names.emplace_back(name);
  return names;
}

struct GenerateOptions {
  GenerateOptions &max_new_tokens(int64_t value) { o_.max_new_tokens = value; return *this; }
  GenerateOptions &temperature(double value)
  {
    o_.temperature = value == 0 ? static_cast<double>(CN_ZERO) : value;
    return *this;
  }
  GenerateOptions &top_k(int64_t value) { o_.top_k = value; return *this; }
  GenerateOptions &top_p(double value) { o_.top_p = value; return *this; }
  GenerateOptions &repetition_penalty(double value) { o_.repetition_penalty = value; return *this; }
  GenerateOptions &stop(int64_t value) { o_.stop = value == 0 ? CN_ZERO : value; return *this; }
  GenerateOptions &cache(bool value) { o_.no_cache = !value; return *this; }
  /* Called with each new token; false ends it. */
  GenerateOptions &each(std::function<bool(int64_t token)> value) { each_ = std::move(value); return *this; }

  cn_generate_opts o_ = detail::opts<cn_generate_opts>();
  std::function<bool(int64_t token)> each_;
};

/* Tokens (B, T) and what follows them. */
template <class M> Tensor generate(M &model, const Tensor &tokens, const GenerateOptions &options = {})
{
  cn_generate_opts o = options.o_;
  if (options.each_) {
    o.each = [](int64_t token, void *payload) {
      bool more = false;
      detail::guarded([&] {
        more = (*static_cast<const std::function<bool(int64_t)> *>(payload))(token);
        return 0;
      });
      return more;
    };
    o.payload = const_cast<std::function<bool(int64_t)> *>(&options.each_);
  }
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_generate_with(detail::bind_module(model), tokens.get(), &o)));
}

/* Keys and values of tokens seen so far, for loops by hand: room for `length` tokens of a batch. */
class Cache {
 public:
  template <class M> Cache(M &model, int64_t batch, int64_t length)
      : cache_(detail::check(cn_cache_new(detail::bind_module(model), batch, length)), cn_cache_free)
  {
  }
  int64_t size() const { return cn_cache_size(get()); }
  void truncate(int64_t n) { detail::check(cn_cache_truncate(get(), n)); } /* forgets those after the first n */
  cn_cache *get() const noexcept { return cache_.get(); }

 private:
  std::shared_ptr<cn_cache> cache_;
};

/* Scores (B, T, vocab) of what follows each of these tokens, which come behind those in the cache. */
template <class M> Tensor decode_step(M &model, const Tensor &tokens, Cache &cache)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_decode_step(detail::bind_module(model), tokens.get(), cache.get())));
}

/* Embeddings (n, dim) of texts, of length 1. */
template <class M> Tensor embed(M &model, const Tokenizer &tokenizer, const std::vector<std::string> &texts)
{
  std::vector<const char *> raw;
  for (const std::string &text : texts) raw.push_back(text.c_str());
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_embed(detail::bind_module(model), tokenizer.get(), raw.data(), raw.size())));
}
/* The same of tokens (B, T); mask (B, T): 1 for tokens, 0 for padding. */
template <class M> Tensor embed(M &model, const Tensor &tokens, const Tensor &mask)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_embed_tokens(detail::bind_module(model), tokens.get(), mask.get())));
}

}  // namespace cn

#endif
