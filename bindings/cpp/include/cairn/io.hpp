/* io.hpp: state as trees, and files of it: safetensors, PyTorch's, NumPy's, JSON.
 *
 * Place in the flow: tensor.hpp below; modules and optimisers give their state as trees. A tree is a value that is
 * moved: it owns all below it. Invariant: a TreeView is valid as long as the tree it looks into. */
#ifndef CAIRN_IO_HPP
#define CAIRN_IO_HPP

#include <cairn/autograd.hpp>
#include <cairn/io.h>
#include <cairn/tree.h>

#include <map>
#include <utility>

namespace cn {

/* Looking into a tree: view["model"]["fc.weight"].tensor(). What is absent reads as absent. */
class TreeView {
 public:
  TreeView(const cn_tree *tree = nullptr) noexcept : tree_(tree) {}

  cn_tree_kind kind() const noexcept { return cn_tree_kind_of(tree_); }
  bool exists() const noexcept { return tree_ != nullptr; }
  size_t size() const noexcept { return cn_tree_size(tree_); }
  TreeView operator[](const char *key) const noexcept { return cn_tree_get(tree_, key); }
  TreeView operator[](const std::string &key) const noexcept { return cn_tree_get(tree_, key.c_str()); }
  TreeView at(size_t i) const noexcept { return cn_tree_at(tree_, i); } /* the i-th value of a list or dictionary */
  std::string key(size_t i) const
  {
    int64_t number = 0;
    const char *text = cn_tree_key(tree_, i, &number);
    return text ? text : std::to_string(number);
  }
  bool has(const std::string &key) const noexcept { return cn_tree_get(tree_, key.c_str()) != nullptr; }

  bool as_bool(bool otherwise = false) const noexcept { return cn_tree_as_bool(tree_, otherwise); }
  int64_t as_int(int64_t otherwise = 0) const noexcept { return cn_tree_as_int(tree_, otherwise); }
  double as_double(double otherwise = 0) const noexcept { return cn_tree_as_float(tree_, otherwise); }
  std::string as_string(const std::string &otherwise = "") const
  {
    if (kind() != CN_TREE_STR) return otherwise;
    return std::string(cn_tree_as_str(tree_, ""), cn_tree_str_size(tree_));
  }
  Tensor tensor() const
  {
    cn_tensor *t = cn_tree_as_tensor(tree_);
    if (!t) throw TypeError(exists() ? "tree: this value is no tensor" : "tree: there is no such value");
    return Tensor::keep(t);
  }
  std::string json(int indent = 0) const { return detail::take(cn_tree_to_json(tree_, indent)); }
  const cn_tree *get() const noexcept { return tree_; }

 private:
  const cn_tree *tree_;
};

/* A tree of one's own: Tree::dict().put("epoch", 3).put("weights", net.state_dict()). */
class Tree {
 public:
  Tree() noexcept = default;
  explicit Tree(cn_tree *tree) : tree_(detail::check(tree)) {} /* takes it over */
  Tree(Tree &&other) noexcept : tree_(std::exchange(other.tree_, nullptr)) {}
  Tree &operator=(Tree &&other) noexcept
  {
    std::swap(tree_, other.tree_);
    return *this;
  }
  Tree(const Tree &other) : tree_(other.tree_ ? detail::check(cn_tree_copy(other.tree_, false)) : nullptr) {}
  Tree &operator=(const Tree &other) { return *this = Tree(other); }
  ~Tree() { cn_tree_free(tree_); }

  Tree(bool value) : Tree(cn_tree_bool(value)) {}
  Tree(int value) : Tree(cn_tree_int(value)) {}
  Tree(int64_t value) : Tree(cn_tree_int(value)) {}
  Tree(double value) : Tree(cn_tree_float(value)) {}
  Tree(const char *value) : Tree(cn_tree_str(value)) {}
  Tree(const std::string &value) : Tree(cn_tree_str_bytes(value.data(), value.size())) {}
  Tree(const Tensor &value) : Tree(cn_tree_tensor(value.get())) {}
  static Tree dict() { return Tree(cn_tree_dict()); }
  static Tree list() { return Tree(cn_tree_list()); }
  static Tree from_json(const std::string &text) { return Tree(cn_tree_from_json(text.data(), text.size())); }

  Tree &put(const std::string &key, Tree value) &
  {
    detail::check(cn_tree_put(tree_, key.c_str(), value.release()));
    return *this;
  }
  Tree &&put(const std::string &key, Tree value) && { return std::move(this->put(key, std::move(value))); }
  Tree &push(Tree value) &
  {
    detail::check(cn_tree_push(tree_, value.release()));
    return *this;
  }
  Tree &&push(Tree value) && { return std::move(this->push(std::move(value))); }

  TreeView view() const noexcept { return tree_; }
  operator TreeView() const noexcept { return tree_; }
  TreeView operator[](const std::string &key) const noexcept { return view()[key]; }
  TreeView at(size_t i) const noexcept { return view().at(i); }
  std::string key(size_t i) const { return view().key(i); }
  size_t size() const noexcept { return cn_tree_size(tree_); }
  bool has(const std::string &key) const noexcept { return view().has(key); }
  Tensor tensor() const { return view().tensor(); }
  std::string json(int indent = 0) const { return view().json(indent); }
  Tree clone() const { return Tree(cn_tree_copy(tree_, true)); } /* tensors too */
  const cn_tree *get() const noexcept { return tree_; }
  cn_tree *release() noexcept { return std::exchange(tree_, nullptr); }

 private:
  cn_tree *tree_ = nullptr;
};

/* ---- files ---- */
/* Whatever it is called and whichever format it has; safetensors and .npz give a dictionary, .npy a tensor. */
inline Tree load(const std::string &path) { return Tree(cn_load(path.c_str())); }
/* The ending names the format: .safetensors, .pt, .npz, .npy, .json. */
inline void save(TreeView tree, const std::string &path) { detail::check(cn_save(path.c_str(), tree.get())); }
inline void save(const Tree &tree, const std::string &path) { save(tree.view(), path); }
inline void save(const Tensor &tensor, const std::string &path)
{
  const bool one = path.size() > 4 && path.compare(path.size() - 4, 4, ".npy") == 0;
  save(one ? Tree(tensor) : Tree::dict().put("tensor", tensor), path);
}
inline void save(const std::map<std::string, Tensor> &tensors, const std::string &path)
{
  Tree tree = Tree::dict();
  for (const auto &named : tensors) tree.put(named.first, named.second);
  save(tree.view(), path);
}
/* A tensor that save wrote. */
inline void load(Tensor &tensor, const std::string &path)
{
  const Tree tree = load(path);
  tensor = tree.view().kind() == CN_TREE_DICT ? tree["tensor"].tensor() : tree.tensor();
}
inline void save(const std::vector<Tensor> &tensors, const std::string &path)
{
  Tree list = Tree::list();
  for (const Tensor &t : tensors) list.push(t);
  save(list.view(), path);
}
inline void load(std::vector<Tensor> &tensors, const std::string &path)
{
  const Tree tree = load(path);
  tensors.clear();
  for (size_t i = 0; i < tree.size(); i++) tensors.push_back(tree.at(i).tensor());
}
/* From and to memory: the bytes of such a file. */
inline Tree load_bytes(const std::string &bytes) { return Tree(cn_load_memory(bytes.data(), bytes.size())); }
inline std::string save_bytes(TreeView tree, cn_format format = CN_FORMAT_SAFETENSORS)
{
  std::string made;
  auto put = [](const void *bytes, size_t size, void *payload) {
    return detail::guarded([&] {
      static_cast<std::string *>(payload)->append(static_cast<const char *>(bytes), size);
      return 0;
    });
  };
  detail::check(cn_save_to(+put, &made, tree.get(), format));
  return made;
}
inline std::string gunzip(const std::string &packed)
{
  return detail::bytes(
      [&](void **bytes, size_t *size) { return cn_gunzip(bytes, size, packed.data(), packed.size()); });
}

/* A safetensors file that stays open: tensors are made when asked for, and live on without it. */
class SafeTensors {
 public:
  explicit SafeTensors(const std::string &path)
      : file_(detail::check(cn_safetensors_open(path.c_str())), cn_safetensors_close)
  {
  }
  std::vector<std::string> keys() const
  {
    std::vector<std::string> all;
    for (size_t i = 0; i < cn_safetensors_count(file_.get()); i++)
      all.emplace_back(cn_safetensors_name(file_.get(), i));
    return all;
  }
  Tensor operator[](const std::string &name) const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_safetensors_get(file_.get(), name.c_str())));
  }
  std::optional<std::string> metadata(const std::string &key) const
  {
    const char *found = cn_safetensors_metadata(file_.get(), key.c_str());
    return found ? std::optional<std::string>(found) : None;
  }

 private:
  std::shared_ptr<cn_safetensors> file_;
};

inline Tensor load_npy(const std::string &path)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_load_npy(path.c_str())));
}
inline void save_npy(const Tensor &tensor, const std::string &path)
{
  detail::check(cn_save_npy(path.c_str(), tensor.get()));
}

}  // namespace cn

#endif
