// A function given by points: straight lines between them, the last line on and on.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace serval::sim {

class Curve {
 public:
  struct Point {
    double x, y;
  };

  // At least one point, x ascending. Before the first point the function is that point's.
  explicit Curve(std::vector<Point> points) : points_(std::move(points)) {}

  double operator()(double x) const {
    if (points_.size() == 1 || x <= points_.front().x) return points_.front().y;
    size_t upper = 1;
    while (upper + 1 < points_.size() && points_[upper].x < x) ++upper;
    const Point& a = points_[upper - 1];
    const Point& b = points_[upper];
    return a.y + (x - a.x) * (b.y - a.y) / (b.x - a.x);
  }

 private:
  std::vector<Point> points_;
};

}  // namespace serval::sim
